// Every collective and every scale factor of the training library is a mutation point, and the
// check notices those that are not. Argument: the source tree.

#include "tests/repository/mutations.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace tutti::repository {
namespace {

std::string sourceRoot;

/// What is multiplied or divided and is no factor of what ranks add up.
const std::vector<AllowedScale> kAllowed{
    {"parallel/optim/", "", "the learning rate's schedule, and one rank's update"},
    {"parallel/nn/gradcheck.cc", "", "compares one rank's gradients with differences"},
    {"parallel/nn/gpt.cc", "idth", "sizes of a model, as numbers"},
    {"parallel/nn/gpt.cc", "static_cast<double>(o.layers)", "sizes, and first values"},
    {"parallel/nn/gpt.cc", "tensorRanks", "what a rank would keep, as a number"},
    {"parallel/nn/llama.cc", "idth", "sizes of a model, as numbers"},
    {"parallel/nn/llama.cc", "static_cast<double>(o.layers)", "sizes, and first values"},
    {"parallel/nn/llama.cc", "double angle = ", "of rotary positions"},
    {"parallel/engine/describe.cc", "", "prints bytes"},
    {"parallel/engine/generate.cc", "", "samples text"},
    {"parallel/sharding/", "", "predicts what is sent and computed"},
    {"parallel/store/initial_values.cc", "deviation", "first values"},
    {"parallel/tensor/random.cc", "", "random numbers"},
    {"parallel/samples/deepspeed_config.cc", "reduce_bucket_size", "bytes of a bucket"},
    {"parallel/samples/matrices.cc", "", "elements of examples, and how far two are apart"},
    {"parallel/samples/progress.cc", "", "prints numbers and times"},
    {"parallel/samples/sharded_matmul.cc", "bound = ", "of a comparison"},
    {"parallel/samples/tensor_parallel_mlp.cc", "input", "what is learned"},
    {"parallel/samples/tensor_parallel_mlp.cc", "error * error / 2", "half a square"},
    {"parallel/samples/tensor_parallel_mlp.cc", "learningRate = ", "the learning rate"},
    {"parallel/samples/tokenize.cc", "static_cast<double>(bytes)", "prints bytes a token"},
    {"parallel/samples/train_memory.cc", "", "predicts what is held"},
};

TEST(Mutations, HaveAPointInThisRepository) {
  const auto files = readTree(sourceRoot);
  for (const auto& faults :
       {callsWithoutPoint(files), pointsNotNamedOnce(files), scalesWithoutPoint(files, kAllowed)})
    for (const std::string& fault : faults) ADD_FAILURE() << fault;
}

using Faults = std::vector<std::string>;

TEST(Mutations, OfCallsAreRefusedWithoutAPoint) {
  const auto faults = [](const std::string& path, const std::string& line) {
    return callsWithoutPoint({{path, {"// ranks.allReduce({})", line}}}).size();
  };
  const std::string file = "parallel/store/s.cc";
  EXPECT_EQ(faults(file, "group->allReduce(MutationPoint::LossSum, {.send = x}, stream);"), 0u);
  EXPECT_EQ(faults(file, "group_.allGatherV(point, {.send = x});"), 0u);
  EXPECT_EQ(faults(file, "group_.allToAll(points_.rows, args);"), 0u);
  EXPECT_EQ(faults(file, "return allReduce(from, to);"), 0u);
  EXPECT_EQ(faults(file, "counters_.allReduce.add(1); log(\"x.allReduce(\");"), 0u);
  EXPECT_EQ(faults(file, "communicator.allReduce({.send = x});"), 1u);
  EXPECT_EQ(faults(file, "communicator.broadcast(args, stream);"), 1u);
  EXPECT_EQ(faults(file, "world->reduceScatter( {x, y, 1, type} );"), 1u);
  EXPECT_EQ(faults(file, "auto c = ranks.prepare(args); c.start();"), 1u);
  EXPECT_EQ(faults(file, "ranks.send(); ranks.receive({});"), 2u);
  EXPECT_EQ(faults("parallel/mesh/mesh_communicator.cc", "ranks_->allReduce(args, stream);"), 0u);
  EXPECT_EQ(faults("parallel/mesh/redistribute.cc", "ranks_->allReduce(args, stream);"), 1u);
  EXPECT_EQ(faults("src/communicator/c.cc", "ranks_->allReduce(args, stream);"), 0u);
  EXPECT_EQ(callsWithoutPoint({{file, {"group", "    ->allGather(", "  {.send = x});"}}}),
            Faults{"parallel/store/s.cc:2: allGather is called without a mutation point"});
}

TEST(Mutations, ArePassedInOnePlace) {
  const SourceFile points{"parallel/mesh/mutation.h",
                          {"enum class MutationPoint : uint8_t {", "  // What there is.",
                           "  LossSum,", "  Texts", "};"}};
  const SourceFile table{"parallel/mesh/mutation.cc", {"f(MutationPoint::LossSum);"}};
  const SourceFile store{"parallel/store/s.cc", {"g->allReduce(MutationPoint::LossSum, {});"}};
  const SourceFile engine{"parallel/engine/e.cc",
                          {"// MutationPoint::LossSum", "h(MutationPoint::Texts);"}};
  EXPECT_EQ(pointsNotNamedOnce({points, table, store, engine}), Faults{});
  EXPECT_EQ(pointsNotNamedOnce({points, table, engine}),
            Faults{"parallel/mesh/mutation.h: nothing passes LossSum"});
  const SourceFile again{"parallel/nn/n.cc", {"", "k(MutationPoint::Texts);"}};
  EXPECT_EQ(pointsNotNamedOnce({points, store, engine, again}),
            Faults{"parallel/nn/n.cc:2: Texts is passed here and at parallel/engine/e.cc:2: "});
  EXPECT_EQ(pointsNotNamedOnce({store, engine}).size(), 1u);  // there is no list
}

TEST(Mutations, OfScalesAreRefusedWithoutAPoint) {
  const auto faults = [](const std::vector<std::string>& lines) {
    return scalesWithoutPoint({{"parallel/store/s.cc", lines}}, {}).size();
  };
  const std::string norm = "double norm = 0, other = 1;";
  EXPECT_EQ(faults({norm, "scale_ = most / norm;"}), 1u);
  EXPECT_EQ(faults({norm, "scale_ = other*most;"}), 1u);
  EXPECT_EQ(faults({norm, "scale_ *= norm;"}), 1u);
  EXPECT_EQ(faults({"x = 0.5 * y;"}), 1u);
  EXPECT_EQ(faults({"x = y / 2e3;"}), 1u);
  EXPECT_EQ(faults({"x = y / static_cast<double>(ranks);"}), 1u);
  EXPECT_EQ(faults({"const auto n = static_cast<float>(m);", "x = (y + 1) * n;"}), 1u);
  EXPECT_EQ(faults({norm, "const auto a = 1, b = f(norm) + norm;", "x = b * y;"}), 1u);
  EXPECT_EQ(faults({norm, "const auto a = 1, b = norm;", "x = a * y;"}), 0u);
  EXPECT_EQ(faults({"x.as<double>()[i] /= ranks;"}), 1u);
  EXPECT_EQ(faults({"x = std::sqrt(y) * z;"}), 1u);
  EXPECT_EQ(faults({"double mean(const T& t);", "x = store.mean(t) * tokens;"}), 1u);
  EXPECT_EQ(faults({"double mean(const T& t);", "return 1 / (ranks + mean(t));"}), 1u);
  EXPECT_EQ(faults({norm, "x = factor(MutationPoint::Scale, most / norm);"}), 0u);
  EXPECT_EQ(faults({norm, "return norm * factor(MutationPoint::Scale, scale);"}), 0u);
  EXPECT_EQ(faults({norm, "return factor(MutationPoint::Scale, scale) * norm;"}), 0u);
  EXPECT_EQ(faults({norm, "x = factor(MutationPoint::Scale, 1), y = norm * 2;"}), 1u);
  EXPECT_EQ(faults({"int64_t rows = ranks * tokens / 2;", "double* const values = p;"}), 0u);
  EXPECT_EQ(faults({norm, "MeshCommunicator* group = g; f(norm, *group);"}), 0u);
  EXPECT_EQ(faults({"const size_t bytes = 10'000 * count;  // 0.5 * y", "x = f(\"0.5 * y\");"}),
            0u);
  const SourceFile header{"parallel/store/s.h", {"struct S { double gradientScale = 1; };"}};
  const SourceFile user{"parallel/engine/e.cc", {"x = s.gradientScale * y;"}};
  const SourceFile kernel{"parallel/kernels/host/k.cc", {"x = 0.5 * y;"}};
  EXPECT_EQ(scalesWithoutPoint({header, user, kernel}, {}),
            Faults{"parallel/engine/e.cc:1: a factor without a mutation point: " + user.lines[0]});
  EXPECT_EQ(scalesWithoutPoint({header, user}, {{"parallel/engine/", "gradientScale", "tried"}}),
            Faults{});
  EXPECT_EQ(scalesWithoutPoint({header}, {{"parallel/engine/", "gradientScale", "tried"}}),
            Faults{"parallel/engine/: nothing there is allowed by: tried"});
}

}  // namespace
}  // namespace tutti::repository

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s SOURCE_TREE\n", argv[0]);
    return 2;
  }
  tutti::repository::sourceRoot = argv[1];
  return RUN_ALL_TESTS();
}
