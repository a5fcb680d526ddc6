// generate: text from any model that train_gpt has saved, or of a Hugging Face folder.
//
//   generate --from run --prompt "Once upon a time" --tokens 100
//   generate --from folder --greedy --ranks 8 --tp 2 --pp 2
//   generate --from run --tokens 0 --export folder       only makes a Hugging Face folder of it

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "parallel/engine/generate.h"
#include "parallel/engine/stages.h"
#include "parallel/huggingface/folder.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/samples/device.h"
#include "parallel/samples/loaded_model.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/ranks.h"
#include "parallel/samples/reports/progress.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/tokenizer_file.h"
#include "parallel/tokenizer/utf8.h"
#include "src/base/one_of.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

struct GenerateCommandOptions {
  std::string from, tokenizer, exportTo;
  int ranks = 0, tp = 1, pp = 1;
  GenerateOptions generate = {.tokens = 100};
  std::string prompt;
  int64_t context = 0;  ///< 0: all that the model has
  bool greedy = false;
  std::string device = "host";
};

void declare(CLI::App& app, GenerateCommandOptions& o) {
  app.add_option("--from", o.from,
                 "a folder of train_gpt's checkpoints, one of them, or a Hugging "
                 "Face folder of a GPT-2 or Llama")
      ->required();
  app.add_option("--tokenizer", o.tokenizer,
                 "tokenizer.json; default: the folder's, or bytes for a model of bytes");
  app.add_option("--prompt", o.prompt, "what is continued");
  app.add_option("--tokens", o.generate.tokens, "how many tokens to write")
      ->check(notNegativeSize())
      ->capture_default_str();
  CLI::Option* temperature = app.add_option("--temperature", o.generate.temperature,
                                            "how daring: the smaller, the likelier tokens")
                                 ->check(CLI::Range(0.0, 1000.0))
                                 ->capture_default_str();
  app.add_flag("--greedy", o.greedy, "always the likeliest token: --temperature 0")
      ->excludes(temperature);
  app.add_option("--top-k", o.generate.topK, "only of so many of the likeliest; 0: of all")
      ->check(notNegativeSize())
      ->capture_default_str();
  app.add_option("--seed", o.generate.seed, "another one is another text")->capture_default_str();
  app.add_option("--context", o.context, "tokens that the model sees at once; default: what it can")
      ->check(positiveSize());
  addRanksFlag(app, o.ranks);
  app.add_option("--tp", o.tp, "of them so many share out each layer; the others share out weights")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--pp", o.pp, "of them so many have layers one after the other")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--device", o.device, kDeviceHelp)
      ->check(base::oneOf({"host", "cuda", "emulated"}))
      ->capture_default_str();
  app.add_option("--export", o.exportTo,
                 "makes a Hugging Face folder of the model, which is not there yet");
}

template <class Model>
int64_t kvHeadsOf(const Model& o) {
  if constexpr (std::is_same_v<Model, LlamaOptions>) return o.kvHeads;
  return o.heads;
}

MeshShape meshOf(const GenerateCommandOptions& o, const ModelOptions& model, int ranks) {
  require(ranks % o.pp == 0, "--pp ", o.pp, " does not divide ", ranks, " ranks");
  require(ranks / o.pp % o.tp == 0, "--tp ", o.tp, " does not divide ", ranks,
          o.pp > 1 ? message(" ranks by --pp ", o.pp) : " ranks");
  MeshShape shape;
  shape[Axis::Pipeline] = o.pp;
  shape[Axis::Fsdp] = ranks / o.pp / o.tp;
  std::visit([&](const auto& m) { setTensorRanks(shape, o.tp, m.heads, kvHeadsOf(m)); }, model);
  return shape;
}

/// All that can be wrong with the flags, before there are ranks.
struct GenerateJob {
  GenerateJob(const GenerateCommandOptions& o, int ranks)
      : source(findModel(o.from, o.tokenizer)), tokenizer(openTokenizer(source)) {
    const int64_t most = contextOf(source.options);
    require(o.context <= most, "--context ", o.context, ": the model sees at most ", most,
            " tokens");
    context = o.context > 0 ? o.context : most;
    const int64_t vocabulary = vocabularyOf(source.options);
    require(tokenizer->vocabulary() <= vocabulary, o.from, ": its model has a vocabulary of ",
            vocabulary, ", and the tokenizer one of ", tokenizer->vocabulary());
    prompt = promptTokens(*tokenizer, o.prompt);
    require(o.exportTo.empty() || !std::filesystem::exists(o.exportTo), "--export ", o.exportTo,
            " is there already");
    shape = meshOf(o, source.options, ranks);
    const auto layers = std::visit([](const auto& m) { return m.layers; }, source.options);
    cutIntoStages(std::vector<int64_t>(static_cast<size_t>(layers) + 2, 1), o.pp, {});
  }

  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;
  int64_t context = 0;  ///< tokens that the model sees at once
  std::vector<int32_t> prompt;
  MeshShape shape;
};

/// The positions of a Llama are no weights: it needs as many as the text has, however many more it
/// could see.
ModelOptions modelFor(const ModelOptions& options, const GenerateOptions& text) {
  return std::holds_alternative<LlamaOptions>(options) ? withContext(options, seenAtOnce(text))
                                                       : options;
}

void write(const GenerateCommandOptions& o, GenerateJob& job) {
  GenerateOptions options = o.generate;
  options.prompt = job.prompt;
  options.context = job.context;
  options.vocabulary = job.tokenizer->vocabulary();
  DeviceMesh mesh = joinMesh(job.shape, o.device, false);
  host::setBlasThreads(1);  // ranks are the parallelism
  const auto kernels = kernelsFor(mesh);
  const auto model = makeModel(modelFor(job.source.options, options));
  Engine engine(mesh, *kernels, *model, {.policy = ShardPolicy::fsdp()});
  loadModel(mesh, engine, job.source);
  if (!o.exportTo.empty())
    exportFolder(mesh, engine.store(), o.exportTo,
                 {.options = job.source.options, .tokenizer = tokenizerText(job.source.tokenizer)});
  if (o.greedy) options.temperature = 0;
  const std::string text = job.tokenizer->decode(generate(engine, options));
  if (mesh.rank() > 0 || o.generate.tokens == 0) return;
  std::printf("%s%s\n", printable(o.prompt).c_str(), printable(text).c_str());
  flushOutput();
}

int run(int argc, char** argv, const GenerateCommandOptions& options) {
  const RankPlan plan = planRanks(options.ranks > 0 ? options.ranks : options.tp * options.pp);
  GenerateJob job(options, plan.ranks);
  if (plan.launch) return launchRanks(argc, argv, plan.ranks);
  write(options, job);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  GenerateCommandOptions options;
  CLI::App app("Writes text with a trained model, over one rank or several.", "generate");
  addVersionFlag(app);
  declare(app, options);
  try {
    app.parse(argc, argv);
    requireDeviceWord(options.device);
    return run(argc, argv, options);
  } catch (const CLI::ParseError& error) {
    return exitCodeOf(app, error);
  } catch (const std::exception& error) {
    sayError("generate", error.what());
    return 1;
  }
}
