// What train_gpt says of the memory that a training takes, against a model that is there; and the
// flags that it names when the machine has less.

#include "parallel/samples/train_gpt/train_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"

namespace tutti::parallel {
namespace {

constexpr double kGigabyte = 1e9;

/// Small options with a text of 4,000 bytes.
class TrainMemoryTest : public testing::Test {
 protected:
  TrainMemoryTest() {
    options_.text = "/tmp/tutti-memory-" + std::to_string(getpid());
    std::ofstream(options_.text) << std::string(4000, 'x');
    options_.model = {.context = 48, .layers = 3, .width = 40, .heads = 5};
    options_.batch = 10;
  }
  ~TrainMemoryTest() override { std::remove(options_.text.c_str()); }

  std::string messageOf(const MachineMemory& machine) const {
    try {
      checkMemory(options_, machine);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::OutOfMemory) << e.what();
      return e.what();
    }
    return "";
  }

  TrainOptions options_;
};

TEST_F(TrainMemoryTest, IsWhatAModelTakes) {
  host::setBlasThreads(1);  // ThreadSanitizer cannot see how BLAS's own threads hand over
  DeviceMesh mesh;
  HostKernels kernels;
  Gpt model(options_.model);
  Engine engine(mesh, kernels, model, {});
  EXPECT_EQ(parameterCount(options_.model), static_cast<double>(engine.store().elementCount()));

  // The arenas round each tensor up to 64 bytes; there are fewer than 20 of a block.
  std::vector<int32_t> ids(3 * 48);
  engine.logits(Tensor(ids.data(), DType::Int32, {3, 48}));
  const double used = static_cast<double>(engine.pipeline().usedBytes());
  const double said = 3 * 48 * savedPerToken(options_.model) * sizeof(float);
  EXPECT_GE(used, said);
  EXPECT_LE(used, said + 4 * 20 * 64);
  engine.forget();

  // Ten sequences in four micro-batches: at most three in one.
  const TrainMemory memory = trainMemory(options_, 2);
  EXPECT_EQ(memory.text, 4000);
  EXPECT_EQ(memory.model, 16 * parameterCount(options_.model));
  EXPECT_EQ(memory.passes, said);
  // Shared out by two ranks: moments, then gradients, then weights.
  const double bytes = parameterCount(options_.model) * sizeof(float);
  for (const auto& [stage, copies] : {std::pair{0, 4.0}, {1, 3.0}, {2, 2.5}, {3, 2.0}}) {
    options_.zero = stage;
    EXPECT_EQ(trainMemory(options_, 2).model, copies * bytes) << stage;
  }
  // What lies in files takes none; what lies in this host's memory does.
  options_.offload = {"optimizer", "gradients", "parameters"};
  EXPECT_EQ(trainMemory(options_, 2).model, 2 * bytes);
  options_.offloadFolder = "/tmp";
  EXPECT_EQ(trainMemory(options_, 2).model, 0);
  options_.offload = {"optimizer"};
  EXPECT_EQ(trainMemory(options_, 2).model, 1 * bytes);
  options_.offload = {};
  options_.offloadFolder = "";
  options_.zero = -1;
  // Two pairs of ranks of tensor parallelism: half of the model for each, and of what a micro-batch
  // leaves within the branches, or of all of it.
  options_.tp = 2;
  options_.model.heads = 4;
  EXPECT_EQ(trainMemory(options_, 4).model, 4 * bytes / 2);
  const double plain = trainMemory(options_, 4).passes;
  options_.model.sequenceParallel = true;
  EXPECT_EQ(trainMemory(options_, 4).passes,
            3 * 48 * savedPerToken(options_.model, 2) * sizeof(float));
  EXPECT_LT(trainMemory(options_, 4).passes, plain);
  // And of each sequence, with all weights.
  options_.tp = 1;
  options_.cp = 2;
  EXPECT_EQ(trainMemory(options_, 4).model, 4 * bytes);
  EXPECT_EQ(trainMemory(options_, 4).passes,
            3 * 24 * savedPerToken(options_.model, 1) * sizeof(float));
  options_.cp = 1;
  options_.model = {.context = 48, .layers = 3, .width = 40, .heads = 5};
  options_.optimizer = "sgd";
  EXPECT_EQ(trainMemory(options_, 2).model, 8 * parameterCount(options_.model));
}

// All blocks, or every other one. Each rank along ep has its part of the experts.
TEST_F(TrainMemoryTest, IsWhatAModelWithExpertsTakes) {
  host::setBlasThreads(1);
  for (const ExpertOptions& experts :
       {ExpertOptions{.count = 4}, ExpertOptions{.count = 6, .perToken = 3, .every = 2}}) {
    options_.model.experts = experts;
    DeviceMesh mesh;
    HostKernels kernels;
    Gpt model(options_.model);
    Engine engine(mesh, kernels, model, {});
    const double parameters = parameterCount(options_.model);
    EXPECT_EQ(parameters, static_cast<double>(engine.store().elementCount()));
    std::vector<int32_t> ids(3 * 48);
    engine.logits(Tensor(ids.data(), DType::Int32, {3, 48}));
    const double used = static_cast<double>(engine.pipeline().usedBytes());
    const double said = 3 * 48 * savedPerToken(options_.model) * sizeof(float);
    EXPECT_GE(used, said);
    EXPECT_LE(used, said + 4 * 30 * 64);
    const double shared = expertParameterCount(options_.model);
    EXPECT_GT(shared, parameters / 2);
    options_.ep = 2;
    EXPECT_EQ(trainMemory(options_, 2).model, 16 * (parameters - shared / 2));
    options_.ep = 1;
  }
  LlamaOptions llama{.experts = {.count = 4, .every = 2}};
  Llama model(llama);
  DeviceMesh mesh;
  HostKernels kernels;
  Engine engine(mesh, kernels, model, {});
  EXPECT_EQ(parameterCount(llama), static_cast<double>(engine.store().elementCount()));
}

TEST_F(TrainMemoryTest, IsThatOfAllRanksOfThisMachine) {
  const double one = trainMemory(options_, 4).total();
  EXPECT_EQ(messageOf({.ranks = 4, .ranksHere = 4, .bytes = 4 * one}), "");
  EXPECT_NE(messageOf({.ranks = 4, .ranksHere = 4, .bytes = 4 * one - 1}), "");
  EXPECT_EQ(messageOf({.ranks = 4, .ranksHere = 1, .bytes = one}), "");
}

TEST_F(TrainMemoryTest, NamesTheFlagsOfTheLargestPart) {
  const auto expectNamed = [&](const std::string& part, const std::string& flag) {
    const std::string said = messageOf({.bytes = 16 * kGigabyte});
    EXPECT_NE(said.find(" GB of it for " + part), std::string::npos) << said;
    EXPECT_NE(said.find(flag), std::string::npos) << said;
    EXPECT_LT(said.size(), 300u);
  };
  const TrainOptions small = options_;
  options_.model.width = 1'000'000'000;
  expectNamed("the model", "--width 1000000000");
  options_ = small;
  options_.model.layers = 1'000'000'000;
  expectNamed("", "--layers 1000000000");
  options_ = small;
  options_.batch = 1'000'000'000;
  expectNamed("a micro-batch", "--batch 1000000000");
  // A file with a hole: it has the size, and takes no room.
  ASSERT_EQ(truncate(options_.text.c_str(), off_t{1} << 40), 0);
  options_ = small;
  expectNamed("the text", options_.text);
  options_.model.context = 1'000'000'000;
  expectNamed("a micro-batch", "--context 1000000000");
}

// A context that the text cannot fill is refused for that, when the text is read.
TEST_F(TrainMemoryTest, LeavesALongContextToTheText) {
  options_.model.context = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(messageOf({.bytes = 16 * kGigabyte}), "");
}

TEST(MachineMemory, IsThere) { EXPECT_GT(machineMemoryBytes(), kGigabyte / 16); }

}  // namespace
}  // namespace tutti::parallel
