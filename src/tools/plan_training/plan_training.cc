#include "src/tools/plan_training/plan_training.h"

#include "parallel/huggingface/model_names.h"
#include "src/base/check.h"
#include "src/base/one_of.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/values.h"
#include "src/tools/simulate/cluster_file.h"
#include "src/tools/simulate/cluster_network.h"

namespace tutti::tools {
namespace {

using parallel::OptimizerKind;

constexpr int kMostDevices = 16'384, kMostRows = 10'000;
constexpr int64_t kMostSequences = 1'000'000, kMostTokens = 10'000'000;
constexpr int kSequencesOfADevice = 4;
constexpr int64_t kLeastTokens = 4096;  // of a sequence on a rank, where it is shared out

OptimizerKind optimizerOf(const std::string& name) {
  for (const auto kind : {OptimizerKind::AdamW, OptimizerKind::Momentum, OptimizerKind::Sgd})
    if (name == parallel::toString(kind)) return kind;
  refuseName(base::message("--optimizer ", name, " does not exist"), name,
             {"adamw", "momentum", "sgd"});
}

/// bfloat16 has float32 masters, and float32 gradients unless they are asked for otherwise.
parallel::StoreTypes typesOf(const std::string& type, const std::string& gradients) {
  const DataType weights = typeNamed("--type", type);
  if (gradients.empty()) return weights;
  const DataType added = typeNamed("--gradients", gradients);
  TUTTI_REQUIRE(added == DataType::Float32 || added == weights, "--gradients ", gradients,
                " is neither float32 nor the type of weights");
  return {weights, DataType::Float32, added};
}

void setJob(PlanTrainingOptions& o) {
  const int64_t most = contextOf(o.job.model);
  TUTTI_REQUIRE(o.job.context > 0 || most <= kMostTokens, "--context is needed: ", o.model,
                " sees up to ", most, " tokens, and no more than ", kMostTokens,
                " are planned with");
  if (o.job.context == 0) o.job.context = most;
  TUTTI_REQUIRE(
      o.job.context <= most || std::holds_alternative<parallel::LlamaOptions>(o.job.model),
      "--context ", o.job.context, " is more than the ", most, " that ", o.model,
      " has positions for");
  o.job.model = withContext(o.job.model, o.job.context);
  if (o.job.batch == 0) o.job.batch = int64_t{kSequencesOfADevice} * o.devices;
}

}  // namespace

std::variant<PlanTrainingOptions, int> parsePlanTraining(int argc, const char* const* argv,
                                                         const std::filesystem::path& folder) {
  PlanTrainingOptions o;
  std::string memory, type = "bfloat16", gradients, optimizer = "adamw";
  double teraflops = 0;
  o.topology = "h100-8";
  o.job.batch = o.job.context = 0;
  CommandLine app(
      "Which layouts of a training fit on so many devices, what each rank would hold, and how "
      "long\n"
      "a step would take: found by running the training without data",
      "tutti plan-training");
  app.add_option(
         "--model", o.model,
         "a folder with a config.json of transformers, or one of\n" + parallel::modelNames())
      ->required();
  app.add_option("-n,--devices", o.devices, "how many, with a rank on each")
      ->required()
      ->check(CLI::Range(1, kMostDevices));
  app.add_option("--memory", memory, "that a rank may hold, in bytes (K, M, G)")->required();
  app.add_option("--topology", o.topology,
                 "a file that describes hosts and links (docs/reference/commands.md), or the name\n"
                 "of one that comes with the program: a100-8, h100-8, h100-8-one-nic, h100-8-pods");
  app.add_option("--batch", o.job.batch,
                 "sequences of a step, over all ranks; 4 for each device without it")
      ->check(CLI::Range(int64_t{1}, kMostSequences))
      ->default_str("");
  app.add_option("--context", o.job.context, "tokens of a sequence; the model's without it")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->default_str("");
  app.add_option("-t,--type", type, "of weights: bfloat16, with float32 masters, or float32")
      ->check(base::oneOf({"bfloat16", "float32"}));
  app.add_option("--gradients", gradients, "their type: float32 without it");
  app.add_option("--optimizer", optimizer, "adamw, momentum or sgd");
  app.add_option("--teraflops", teraflops,
                 "of matrix products in bfloat16 that a device reaches, instead of the topology's")
      ->check(CLI::Range(1e-6, 1e6))
      ->default_str("");
  app.add_option("--limit", o.limit, "layouts that are shown")->check(CLI::Range(1, kMostRows));
  app.addOutput("--json", o.jsonFile, "also write it to this file, as JSON in one line");
  if (const auto code = app.read(argc, argv)) return *code;
  o.job.model = parallel::modelOfFlag(o.model);
  o.memoryBytes = parseBytes("--memory", memory);
  o.cluster = readCluster(o.topology, folder);
  if (teraflops > 0) o.cluster.work.teraflops = teraflops;
  TUTTI_REQUIRE(o.cluster.work.teraflops > 0, o.topology,
                " does not say rank.teraflops: --teraflops is needed");
  o.job.optimizer = optimizerOf(optimizer);
  o.job.types = typesOf(type, gradients);
  setJob(o);
  return o;
}

/// What a rank copies is read and written. Products of float32 are half as fast.
parallel::DeviceRates ratesOf(const topology::Cluster& cluster, DataType type) {
  const double half = type == DataType::BFloat16 ? 1 : 0.5;
  return {.any = {.flopsPerSecond = cluster.work.teraflops * 1e12 * half,
                  .bytesPerSecond = 2e9 * cluster.work.copyGigabytesPerSecond}};
}

namespace {

int showPlanTraining(const PlanTrainingOptions& o) {
  ClusterNetwork network(o.cluster);
  const int perHost = std::min(o.devices, o.cluster.ranksPerHost);
  parallel::Predictor predictor(o.job, ratesOf(o.cluster, o.job.types.weights), network, perHost);
  const parallel::Plan plan = planTraining(
      predictor,
      {.space = {.devices = o.devices, .ranksPerHost = perHost, .leastTokens = kLeastTokens},
       .memoryBytes = static_cast<size_t>(o.memoryBytes)});
  writeIfNamed("--json", o.jsonFile, [&] { return planTrainingJson(o, plan); });
  printBeside(planTrainingText(o, plan), {o.jsonFile});
  return plan.fitting.empty() ? 1 : 0;
}

}  // namespace

int planTrainingMain(int argc, char** argv) {
  return runProgram<PlanTrainingOptions>(
      "tutti plan-training", [&] { return parsePlanTraining(argc, argv, clusterFolder()); },
      showPlanTraining);
}

}  // namespace tutti::tools
