#include "parallel/samples/train_gpt/train_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/engine.h"
#include "parallel/samples/planning/fitting_layouts.h"
#include "parallel/samples/train_gpt/train_text.h"
#include "src/base/nearest_name.h"

namespace tutti::parallel {

ModelOptions modelOf(const TrainOptions& o) {
  if (!o.llama) return o.model;
  LlamaOptions llama = *o.llama;
  llama.context = o.model.context;
  llama.sequenceParallel = o.model.sequenceParallel;
  llama.recompute = o.model.recompute;
  llama.contextAttention = o.model.contextAttention;
  return llama;
}

void takeSizes(TrainOptions& o, const std::string& flag, const ModelOptions& model) {
  if (!o.contextGiven) o.model.context = std::min(o.model.context, contextOf(model));
  require(o.model.context <= contextOf(model), "--context ", o.model.context, ": the model of ",
          flag, " sees at most ", contextOf(model), " tokens");
  if (const auto* llama = std::get_if<LlamaOptions>(&model)) {
    o.llama = *llama;
    return;
  }
  GptOptions gpt = std::get<GptOptions>(model);
  gpt.context = o.model.context;
  gpt.sequenceParallel = o.model.sequenceParallel;
  gpt.recompute = o.model.recompute;
  gpt.contextAttention = o.model.contextAttention;
  o.model = gpt;
}

namespace {

struct AxisFlag {
  Axis axis;
  int ranks;
};

/// Of the ranks that compute with the same sequences, or the same experts, together.
std::array<AxisFlag, 4> modelAxes(const TrainOptions& o) {
  return {
      {{Axis::Tensor, o.tp}, {Axis::Pipeline, o.pp}, {Axis::Context, o.cp}, {Axis::Expert, o.ep}}};
}

std::string flagText(const AxisFlag& flag) {
  return message("--", toString(flag.axis), " ", flag.ranks);
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& texts) {
  std::string list;
  for (size_t i = 0; i < texts.size(); ++i)
    list += (i == 0 ? "" : i + 1 == texts.size() ? " and " : ", ") + texts[i];
  return list;
}

}  // namespace

int modelRanks(const TrainOptions& o) {
  int product = 1;
  for (const AxisFlag& flag : modelAxes(o)) product *= flag.ranks;
  return product;
}

namespace {

/// Those along an axis that are given.
std::vector<std::string> axisFlags(const TrainOptions& o) {
  std::vector<std::string> flags;
  if (o.dp > 0) flags.push_back(flagText({Axis::Data, o.dp}));
  if (o.fsdp > 0) flags.push_back(flagText({Axis::Fsdp, o.fsdp}));
  for (const AxisFlag& flag : modelAxes(o))
    if (flag.ranks > 1) flags.push_back(flagText(flag));
  return flags;
}

}  // namespace

std::string askingFlags(const TrainOptions& o) { return o.ranks > 0 ? "" : listed(axisFlags(o)); }

int askedRanks(const TrainOptions& o) {
  const std::vector<std::string> flags = axisFlags(o);
  const int product = std::max(o.dp, 1) * std::max(o.fsdp, 1) * modelRanks(o);
  const bool whole = o.dp > 0 && o.fsdp > 0;
  require(!whole || o.ranks == 0 || o.ranks == product, "--ranks ", o.ranks, ", but ",
          listed(flags), " are ", product);
  return o.ranks > 0 ? o.ranks : flags.empty() ? 0 : product;
}

MeshShape meshOf(const TrainOptions& o, int ranks) {
  MeshShape shape;
  int data = ranks;  // that the flags seen so far leave
  std::vector<std::string> flags;
  const auto of = [&] {
    return message(ranks, " ranks", flags.empty() ? "" : " by ", listed(flags));
  };
  for (const AxisFlag& flag : modelAxes(o)) {
    if (flag.ranks == 1) continue;
    require(data % flag.ranks == 0, flagText(flag), " does not divide ", of());
    data /= flag.ranks;
    flags.push_back(flagText(flag));
    shape[flag.axis] = flag.ranks;
  }
  require(o.dp == 0 || data % o.dp == 0, "--dp ", o.dp, " does not divide ", of());
  require(o.fsdp == 0 || data % o.fsdp == 0, "--fsdp ", o.fsdp, " does not divide ", of());
  require(o.dp == 0 || o.fsdp == 0 || o.dp * o.fsdp == data, "--dp ", o.dp, " and --fsdp ", o.fsdp,
          " are not ", of());
  shape[Axis::Fsdp] = o.fsdp > 0 ? o.fsdp : o.dp > 0 ? data / o.dp : o.zero > 0 ? data : 1;
  shape[Axis::Data] = data / shape[Axis::Fsdp];
  const int64_t heads = o.llama ? o.llama->heads : o.model.heads;
  const int64_t kvHeads = o.llama ? o.llama->kvHeads : heads;
  setTensorRanks(shape, o.tp, heads, kvHeads);
  if (o.model.contextAttention == ContextAttention::Heads)
    requireHeadsShared(o.cp, heads / o.tp, kvHeads / shape[Axis::Tensor]);
  const ExpertOptions& experts = o.llama ? o.llama->experts : o.model.experts;
  require(experts.count > 0 || o.ep == 1, "--ep ", o.ep,
          " shares out experts, and the model has none");
  if (experts.count > 0) requireExpertsFit(shape, experts.count);
  return shape;
}

namespace {

/// `policy` says what is shared out: of gradients and parameters nothing else can lie elsewhere.
Offload offloadOf(const TrainOptions& o, const ShardPolicy& policy) {
  Offload offload;
  offload.folder = o.offloadFolder;
  const Place place = o.offloadFolder.empty() ? Place::Host : Place::File;
  for (const std::string& part : o.offload) {
    require(part != "none" || o.offload.size() == 1, "--offload none is without ",
            o.offload[o.offload[0] == "none" ? 1 : 0]);
    if (part == "optimizer") offload.optimizer = place;
    if (part == "gradients") offload.gradients = place;
    if (part == "parameters") offload.parameters = place;
  }
  require(policy.gradients || offload.gradients == Place::Device,
          "--offload gradients: they are shared out with --zero 2 or 3, or --fsdp alone");
  require(policy.parameters || offload.parameters == Place::Device,
          "--offload parameters: they are shared out with --zero 3, or --fsdp alone");
  const bool any = !o.offload.empty() && o.offload[0] != "none";
  require(o.offloadFolder.empty() || any, "--offload-folder ", o.offloadFolder,
          ": it is for what --offload names");
  require(o.device == "host" || o.offloadFolder.empty(), "--offload-folder ", o.offloadFolder,
          ": with --device ", o.device,
          " state lies in the memory of the GPU or of this host, and in no files");
  return offload;
}

}  // namespace

namespace {

/// Stages of a rank.
int chunksOf(const TrainOptions& o) {
  const PipelineOptions pipeline = pipelineOf(o);
  return buildSchedule({.kind = pipeline.schedule, .chunks = pipeline.chunks}).chunks;
}

/// Of the model, as far as it is known.
LayoutNeeds needsOf(const TrainOptions& o, int ranks) {
  const int64_t heads = o.llama ? o.llama->heads : o.model.heads;
  const int64_t layers = o.llama ? o.llama->layers : o.model.layers;
  return {.ranks = ranks > 0 ? ranks : o.ranks,
          .heads = heads,
          .kvHeads = o.llama ? o.llama->kvHeads : heads,
          .exchangesHeads = o.model.contextAttention == ContextAttention::Heads,
          .stages = static_cast<int>(std::min<int64_t>(layers / chunksOf(o), 1024)),
          .experts = o.llama ? o.llama->experts.count : o.model.experts.count};
}

/// What to say behind the refusal of a layout; nothing where it is not the layout that is wrong.
std::string nearestText(const TrainOptions& o, int ranks) {
  const LayoutFlags wanted{
      .dp = o.dp, .fsdp = o.fsdp, .tp = o.tp, .pp = o.pp, .cp = o.cp, .ep = o.ep};
  const LayoutNeeds needs = needsOf(o, ranks);
  if (fits(wanted, needs)) return "";
  std::string text;
  for (const LayoutFlags& layout : nearestFitting(wanted, needs, 3))
    text += (text.empty() ? "; nearest to it are " : ", or ") + layout.describe();
  return text;
}

}  // namespace

ShardPolicy policyOf(const TrainOptions& o) {
  ShardPolicy policy = ShardPolicy::zero(o.zero >= 0 ? o.zero : o.fsdp > 0 ? 3 : 0);
  policy.deterministic = o.deterministic;
  policy.reshard = reshardOf(o.reshard);
  require(o.reshard.when.empty() || policy.parameters, "--reshard ", o.reshard.when,
          ": weights are gathered, and given back, with --zero 3, or --fsdp alone");
  policy.offload = offloadOf(o, policy);
  return policy;
}

void checkLayout(const TrainOptions& o, int ranks) {
  try {
    const int asked = askedRanks(o);
    if (const int all = ranks > 0 ? ranks : asked; all > 0) meshOf(o, all);
    checkPipeline(o);
  } catch (const Error& error) {
    fail(error.code(), error.what(), nearestText(o, ranks));
  }
}

std::optional<Documents> documentsOf(const TrainOptions& options, const TokenView& text) {
  if (!options.lines) return std::nullopt;
  std::optional<uint8_t> promptEnd;
  if (!options.promptEnd.empty()) promptEnd = static_cast<uint8_t>(options.promptEnd[0]);
  return Documents(linesOf(text, promptEnd), options.model.context);
}

PipelineOptions pipelineOf(const TrainOptions& o) {
  const auto kind = parseScheduleKind(o.schedule);
  require(kind.has_value(), "--schedule ", base::noneOf(o.schedule, scheduleWords()));
  return {.schedule = *kind, .chunks = o.chunks, .layers = o.stages};
}

void checkPipeline(const TrainOptions& o) {
  const PipelineOptions pipeline = pipelineOf(o);
  const Schedule schedule = buildSchedule(
      {.kind = pipeline.schedule, .ranks = o.pp, .microBatches = 1, .chunks = pipeline.chunks});
  // A model of any size may be asked for; more layers than these only add to a stage.
  constexpr int64_t kLayers = 4096;
  const int64_t layers = std::visit([](const auto& model) { return model.layers; }, modelOf(o));
  const std::vector<int64_t> costs(static_cast<size_t>(std::min(layers, kLayers)) + 2, 1);
  cutIntoStages(costs, schedule.stages(), pipeline.layers);
}

int batchRanks(const TrainOptions& options, int ranks) {
  return ranks / modelRanks(options) * options.ep;
}

void checkSplit(const TrainOptions& options, int ranks) {
  const int groups =
      checkReductionGroups(options.microBatches, batchRanks(options, ranks), options.deterministic);
  const int64_t pieces = int64_t{groups} * options.rounds;
  require(options.batch >= pieces, "--batch ", options.batch, " cannot be cut into ", pieces,
          " micro-batches: a larger --batch", options.rounds > 1 ? ", fewer --rounds" : "",
          " or a smaller --micro-batches is needed");
}

namespace {

/// Under whatever names. Neither needs to exist; what cannot be resolved cannot be opened either.
bool sameFile(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (b.empty()) return false;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path first = fs::weakly_canonical(a, error);
  return !error && first == fs::weakly_canonical(b, error) && !error;
}

}  // namespace

void checkNotTheText(const TrainOptions& options) {
  const auto refuse = [&](const char* flag, const std::string& written) {
    if (written.empty()) return;
    const auto beside = [&](const std::string& read, const char* what) {
      require(!sameFile(written, read), flag, " ", written, " is ", what,
              ": it would be overwritten");
    };
    beside(options.text, "the text");
    beside(options.tokens, "the token file");
    beside(options.tokenizer, "the tokenizer");
  };
  require(options.json != "-", "--json - is standard output, which has the progress: name a file");
  refuse("--json", options.json);
  refuse("--trace", options.trace);
  require(options.trace.empty() || !sameFile(options.trace, options.json), "--trace ",
          options.trace, " is the file of --json");
}

void checkFiles(const TrainOptions& options) {
  validationWindows(options, readTokens(options, *tokenizerOf(options)).validation);
  std::error_code error;
  require(
      options.offloadFolder.empty() || std::filesystem::is_directory(options.offloadFolder, error),
      "--offload-folder ", options.offloadFolder, " is no folder");
  const auto requireWritable = [](const char* flag, const std::string& path) {
    if (!path.empty()) naming(flag, [&] { requireReplaceable(path); });
  };
  requireWritable("--json", options.json);
  requireWritable("--trace", options.trace);
}

}  // namespace tutti::parallel
