// The train_gpt commands of `tutti plan-training`: train_gpt's own parser reads the layout, the
// model and the batch that were planned, and train_gpt runs them. Arguments: the executables of
// tutti and of train_gpt, the folder of the topologies.

#include "src/tools/plan_training/train_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "parallel/huggingface/config.h"
#include "parallel/samples/train_gpt/train_options.h"
#include "parallel/tensor/check.h"
#include "src/tools/simulate/cluster_network.h"
#include "tests/support/run_program.h"
#include "tests/support/run_tutti.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using parallel::TrainingLayout;
using parallel::TrainOptions;

std::string trainGpt, topologies;
const tests::Arguments commandLine{
    {"TUTTI", &launcher::tuttiPath}, {"TRAIN_GPT", &trainGpt}, {"TOPOLOGIES", &topologies}};

std::vector<std::string> wordsOf(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

PlanTrainingOptions planned(const std::string& flags) {
  std::vector<std::string> words = wordsOf("plan-training " + flags);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const auto parsed =
      parsePlanTraining(static_cast<int>(arguments.size()), arguments.data(), topologies);
  return std::get<PlanTrainingOptions>(parsed);
}

parallel::Plan planOf(const PlanTrainingOptions& o) {
  ClusterNetwork network(o.cluster);
  const int perHost = std::min(o.devices, o.cluster.ranksPerHost);
  parallel::Predictor predictor(o.job, ratesOf(o.cluster, o.job.types.weights), network, perHost);
  return planTraining(predictor, {.space = {.devices = o.devices, .ranksPerHost = perHost},
                                  .memoryBytes = static_cast<size_t>(o.memoryBytes)});
}

TrainOptions parsed(const std::string& command) {
  std::vector<std::string> words = wordsOf(command);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  TrainOptions options;
  EXPECT_EQ(parallel::parse(static_cast<int>(arguments.size()), arguments.data(), options),
            std::nullopt)
      << command;
  return options;
}

/// The model, with what an engine does with it.
std::string textOf(const parallel::ModelOptions& model, DataType type) {
  return std::visit(
      [&](const auto& o) {
        return parallel::message(configText(model, type), ", sp ", o.sequenceParallel,
                                 ", recompute ", parallel::toString(o.recompute), ", heads ",
                                 o.contextAttention == parallel::ContextAttention::Heads);
      },
      model);
}

void expectSame(const PlanTrainingOptions& o, const TrainingLayout& layout) {
  const std::string command = trainCommand(o, layout);
  SCOPED_TRACE(layout.describe() + ": " + command);
  const TrainOptions read = parsed(command);
  const int asked = parallel::askedRanks(read), ranks = std::max(1, asked);
  EXPECT_EQ(ranks, o.devices);
  EXPECT_EQ(meshOf(read, ranks), layout.mesh);
  EXPECT_NO_THROW(checkSplit(read, ranks));
  const parallel::EngineOptions engine = engineUnder(o.job, layout);
  const parallel::ShardPolicy policy = policyOf(read);
  EXPECT_EQ(policy.optimizer, engine.policy.optimizer);
  EXPECT_EQ(policy.gradients, engine.policy.gradients);
  EXPECT_EQ(policy.parameters, engine.policy.parameters);
  EXPECT_EQ(policy.reshard.when, engine.policy.reshard.when);
  EXPECT_EQ(read.microBatches, engine.reductionGroups);
  EXPECT_EQ(read.rounds, engine.rounds);
  EXPECT_EQ(pipelineOf(read).schedule, layout.schedule);
  EXPECT_EQ(pipelineOf(read).chunks, layout.chunks);
  EXPECT_EQ(textOf(modelOf(read), read.type), textOf(modelUnder(o.job, layout), read.type));
  EXPECT_EQ(read.batch, o.job.batch);
  EXPECT_EQ(read.model.context, o.job.context);
  EXPECT_EQ(read.type, o.job.types.weights);
  EXPECT_EQ(read.gradients, o.job.types.gradients);
  EXPECT_EQ(read.optimizer, parallel::toString(o.job.optimizer));
}

/// What is particular about layouts, so that a test sees that it has met all of it.
std::set<std::string> particularsOf(const TrainingLayout& layout) {
  std::set<std::string> all{parallel::message("zero ", layout.zero)};
  for (int i = 0; i < parallel::kAxisCount; ++i)
    if (const auto axis = static_cast<parallel::Axis>(i); layout.mesh[axis] > 1)
      all.insert(parallel::toString(axis));
  if (layout.mesh[parallel::Axis::Pipeline] > 1) all.insert(toString(layout.schedule));
  if (layout.sequenceParallel) all.insert("sp");
  if (layout.contextAttention == parallel::ContextAttention::Heads) all.insert("heads");
  if (layout.recompute != parallel::Recompute::None) all.insert("recompute");
  if (layout.reshard == parallel::Reshard::Never) all.insert("no reshard");
  if (layout.rounds > 1) all.insert("rounds");
  return all;
}

TEST(TrainCommand, IsReadAsTheLayoutThatWasPlanned) {
  std::set<std::string> met;
  for (const std::string flags :
       {"--model gpt2 -n 8 --memory 16G --batch 16", "--model gpt2 -n 1 --memory 80G --batch 2",
        "--model gpt2 -n 2 --memory 16G --batch 4 --type float32 --optimizer sgd",
        "--model gpt2 -n 2 --memory 16G --batch 4 --gradients bfloat16 --optimizer momentum",
        "--model llama-8b -n 16 --memory 80G --context 32768 --batch 16",
        "--model mixtral-8x7b -n 16 --memory 80G --context 4096 --batch 16"}) {
    const PlanTrainingOptions o = planned(flags);
    const parallel::Plan plan = planOf(o);
    EXPECT_FALSE(plan.fitting.empty()) << flags;
    for (const parallel::Prediction& prediction : plan.fitting) {
      expectSame(o, prediction.layout);
      met.merge(particularsOf(prediction.layout));
    }
  }
  const std::set<std::string> all{"dp",    "fsdp",   "tp",         "pp",          "cp",
                                  "ep",    "zero 0", "zero 1",     "zero 2",      "zero 3",
                                  "1f1b",  "zb-h1",  "zb-v",       "interleaved", "sp",
                                  "heads", "rounds", "no reshard", "recompute"};
  for (const std::string& particular : all) EXPECT_TRUE(met.contains(particular)) << particular;
}

/// More than a planner chooses.
TEST(TrainCommand, HasWhatNoPlanHas) {
  const PlanTrainingOptions o = planned("--model llama-70b -n 64 --memory 80G --batch 64");
  TrainingLayout layout{.mesh = parallel::MeshShape::parse("pp=2,fsdp=2,tp=8,rep=2"),
                        .zero = 3,
                        .recompute = parallel::Recompute::Attention,
                        .schedule = parallel::ScheduleKind::Interleaved,
                        .chunks = 4,
                        .microBatches = 32,
                        .rounds = 4};
  expectSame(o, layout);
}

TEST(TrainCommand, QuotesAFolder) {
  PlanTrainingOptions o = planned("--model gpt2 -n 1 --memory 80G");
  o.model = "/tmp/bob's model";
  EXPECT_NE(trainCommand(o, {}).find(" --model '/tmp/bob'\\''s model' "), std::string::npos)
      << trainCommand(o, {});
}

// On this host in the place of GPUs, one step.
TEST(TrainCommand, Runs) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type":"llama","vocab_size":256,"max_position_embeddings":64,)"
         R"("num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"intermediate_size":64})";
  const launcher::Result run =
      launcher::runTutti({"plan-training", "--model", folder.path(), "-n", "2", "--memory", "1G",
                          "--context", "16", "--batch", "4", "--type", "float32", "--json", "-"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const auto plan = nlohmann::json::parse(run.out);
  std::string command = plan["layouts"][0]["train_gpt"];
  const std::string begin = "train_gpt --device cuda ";
  ASSERT_EQ(command.substr(0, begin.size()), begin);
  command = trainGpt + " --steps 1 --generate 0 " + command.substr(begin.size());
  const tests::Output trained = tests::runProgram(command);
  EXPECT_EQ(trained.exitCode, 0) << command << "\n" << trained.text;
  EXPECT_EQ(trained.count(", 2 ranks, "), 1) << trained.text;
}

}  // namespace
}  // namespace tutti::tools
