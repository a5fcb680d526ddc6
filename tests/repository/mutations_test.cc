// Every collective and every scale factor of the training library has a purpose, and the check
// notices those that have none. Argument: the source tree.

#include "tests/repository/mutations.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}};

/// What is multiplied or divided and is no factor of what ranks add up.
const std::vector<AllowedScale> kAllowed{
    {"parallel/checkpoint/", "folder / ", "a path"},
    {"parallel/checkpoint/", "folder_ / ", "a path"},
    {"parallel/checkpoint/", "partial_ / ", "a path"},
    {"parallel/checkpoint/", "root / ", "a path"},
    {"parallel/checkpoint/", "path() / ", "a path"},
    {"parallel/huggingface/", "folder / ", "a path"},
    {"parallel/huggingface/", "folder_ / ", "a path"},
    {"parallel/huggingface/", "partial / ", "a path"},
    {"parallel/huggingface/weights.cc", "std::ldexp(", "what a number of 16 bits is"},
    {"parallel/data/token_file.cc", "", "bytes of a file"},
    {"parallel/tokenizer/pattern.cc", "pcre2_", "pointers to what is PCRE2's"},
    {"parallel/mesh/redistribute.cc", "row * pitch(", "bytes"},
    {"parallel/store/parameter_store.cc", "gradientScale_ = 1;", "there is no clipping yet"},
    {"parallel/store/parameter_store.cc", "* unscaling;", "is the factor of its purpose"},
    {"parallel/optim/loss_scale", "", "the loss scale's schedule"},
    {"parallel/optim/", "", "the learning rate's schedule, and one rank's update"},
    {"parallel/nn/gradcheck.cc", "", "compares one rank's gradients with differences"},
    {"parallel/nn/experts.cc", "static_cast<double>(o.", "sizes of a model, as numbers"},
    {"parallel/nn/experts_backward.cc", "size_t first", "a place in a list"},
    {"parallel/nn/experts.cc", "evenShare", "a capacity, which is a number of rows"},
    {"parallel/nn/experts.cc", "static_cast<double>(e.", "the same"},
    {"parallel/nn/experts_backward.cc", "Loss * experts.perSequence", "an option times a factor"},
    {"parallel/nn/gpt.cc", "idth", "sizes of a model, as numbers"},
    {"parallel/nn/gpt.cc", "static_cast<double>(o.layers)", "sizes, and first values"},
    {"parallel/nn/gpt.cc", "tensorRanks", "what a rank would keep, as a number"},
    {"parallel/nn/gpt.cc", "double within = ", "the same"},
    {"parallel/nn/gpt.cc", "o.experts.", "sizes, as numbers"},
    {"parallel/nn/llama.cc", "idth", "sizes of a model, as numbers"},
    {"parallel/nn/llama.cc", "static_cast<double>(o.layers)", "sizes, and first values"},
    {"parallel/nn/llama.cc", "o.experts.", "sizes, as numbers"},
    {"parallel/nn/llama.cc", "double angle = ", "of rotary positions"},
    {"parallel/engine/describe.cc", "", "prints bytes"},
    {"parallel/engine/generate.cc", "", "samples text"},
    {"parallel/pipeline/costs.h", "static_cast<double>(over)", "a fraction as one number"},
    {"parallel/sharding/", "", "predicts what is sent and computed"},
    {"parallel/store/initial_values.cc", "deviation", "first values"},
    {"parallel/tensor/random.cc", "", "random numbers"},
    {"parallel/planner/", "", "predicts what is held, sent and computed"},
    {"parallel/samples/planning/measured_rates.cc", "", "times kernels"},
    {"parallel/samples/ring_attention/attention_layer.cc", "", "predicts bytes"},
    {"parallel/samples/", "folder / ", "a path"},
    {"parallel/samples/compare_strategies/formulas.cc", "", "predicts what is held and sent"},
    {"parallel/samples/compare_strategies/strategies.cc", "", "measures rates"},
    {"parallel/samples/compare_strategies/strategy_tables.cc", "",
     "prints bytes, times and shares"},
    {"parallel/samples/compare_strategies/compare_strategies.cc", "", "prints shares of time"},
    {"parallel/samples/options/deepspeed_config.cc", "std::ldexp(1, ",
     "a power of two that is given"},
    {"parallel/samples/loaded_model.cc", "from / ", "a path"},
    {"parallel/samples/sharded_matmul/matrices.cc", "",
     "elements of examples, and how far two are apart"},
    {"parallel/samples/moe.cc", "", "prints shares, and predicts bytes"},
    {"parallel/samples/operator_placement.cc", "", "prints what operators take"},
    {"parallel/samples/pipeline_schedules.cc", "", "prints shares of time"},
    {"parallel/samples/reports/progress.cc", "", "prints numbers and times"},
    {"parallel/samples/ring_attention/ring_attention.cc", "allToAll.bytes / ranks", "bytes"},
    {"parallel/samples/ring_attention/ring_attention.cc", "o.length / pieces",
     "a length to ask for"},
    {"parallel/samples/ring_attention/ring_attention.cc", "difference / most",
     "how far two are apart"},
    {"parallel/samples/tensor_parallel_mlp.cc", "input", "what is learned"},
    {"parallel/samples/tensor_parallel_mlp.cc", "error * error / 2", "half a square"},
    {"parallel/samples/tensor_parallel_mlp.cc", "learningRate = ", "the learning rate"},
    {"parallel/tokenizer/pattern.cc", "textBytes", "what a match may take"},
    {"parallel/samples/tokenize.cc", "static_cast<double>(bytes)", "prints bytes a token"},
    {"parallel/samples/train_gpt/train_memory.cc", "", "predicts what is held"},
};

TEST(Mutations, HaveAPurposeInThisRepository) {
  const auto files = readTree(sourceRoot);
  for (const auto& faults : {callsWithoutPurpose(files), purposesNotNamedOnce(files),
                             scalesWithoutPurpose(files, kAllowed)})
    for (const std::string& fault : faults) ADD_FAILURE() << fault;
}

using Faults = std::vector<std::string>;

TEST(Mutations, OfCallsAreRefusedWithoutAPurpose) {
  const auto faults = [](const std::string& path, const std::string& line) {
    return callsWithoutPurpose({{path, {"// ranks.allReduce({})", line}}}).size();
  };
  const std::string file = "parallel/store/s.cc";
  EXPECT_EQ(faults(file, "group->allReduce(Purpose::LossSum, {.send = x}, stream);"), 0u);
  EXPECT_EQ(faults(file, "group_.allGatherV(purpose, {.send = x});"), 0u);
  EXPECT_EQ(faults(file, "group_.allToAll(purposes_.rows, args);"), 0u);
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
  EXPECT_EQ(callsWithoutPurpose({{file, {"group", "    ->allGather(", "  {.send = x});"}}}),
            Faults{"parallel/store/s.cc:2: allGather is called without a purpose"});
}

TEST(Mutations, ArePassedInOnePlace) {
  const SourceFile purposes{
      "parallel/mesh/purpose.h",
      {"enum class Purpose : uint8_t {", "  // What there is.", "  LossSum,", "  Texts", "};"}};
  const SourceFile table{"parallel/mesh/purpose.cc", {"f(Purpose::LossSum);"}};
  const SourceFile store{"parallel/store/s.cc", {"g->allReduce(Purpose::LossSum, {});"}};
  const SourceFile engine{"parallel/engine/e.cc", {"// Purpose::LossSum", "h(Purpose::Texts);"}};
  EXPECT_EQ(purposesNotNamedOnce({purposes, table, store, engine}), Faults{});
  EXPECT_EQ(purposesNotNamedOnce({purposes, table, engine}),
            Faults{"parallel/mesh/purpose.h: nothing passes LossSum"});
  const SourceFile again{"parallel/nn/n.cc", {"", "k(Purpose::Texts);"}};
  EXPECT_EQ(purposesNotNamedOnce({purposes, store, engine, again}),
            Faults{"parallel/nn/n.cc:2: Texts is passed here and at parallel/engine/e.cc:2: "});
  EXPECT_EQ(purposesNotNamedOnce({store, engine}).size(), 1u);  // there is no list
}

TEST(Mutations, OfScalesAreRefusedWithoutAPurpose) {
  const auto faults = [](const std::vector<std::string>& lines) {
    return scalesWithoutPurpose({{"parallel/store/s.cc", lines}}, {}).size();
  };
  const std::string norm = "double norm = 0, other = 1;";
  EXPECT_EQ(faults({norm, "most_ = most / norm;"}), 1u);
  EXPECT_EQ(faults({norm, "most_ = other*most;"}), 1u);
  EXPECT_EQ(faults({norm, "most_ *= norm;"}), 1u);
  EXPECT_EQ(faults({"x = 0.5 * y;"}), 1u);
  EXPECT_EQ(faults({"x = y / 2e3;"}), 1u);
  EXPECT_EQ(faults({"x = y / static_cast<double>(ranks);"}), 1u);
  EXPECT_EQ(faults({"const auto n = static_cast<float>(m);", "x = (y + 1) * n;"}), 1u);
  EXPECT_EQ(faults({norm, "const auto a = 1, b = f(norm) + norm;", "x = b * y;"}), 1u);
  EXPECT_EQ(faults({norm, "const auto a = 1, b = norm;", "int y = 2; x = a * y;"}), 0u);
  EXPECT_EQ(faults({"x.as<double>()[i] /= ranks;"}), 1u);
  EXPECT_EQ(faults({"x = std::sqrt(y) * z;"}), 1u);
  EXPECT_EQ(faults({"double mean(const T& t);", "x = store.mean(t) * tokens;"}), 1u);
  EXPECT_EQ(faults({"double mean(const T& t);", "return 1 / (ranks + mean(t));"}), 1u);
  EXPECT_EQ(faults({norm, "x = factor(Purpose::Scale, most / norm);"}), 0u);
  EXPECT_EQ(faults({norm, "return norm * factor(Purpose::Scale, scale);"}), 0u);
  EXPECT_EQ(faults({norm, "return factor(Purpose::Scale, scale) * norm;"}), 0u);
  EXPECT_EQ(faults({norm, "x = factor(Purpose::Scale, 1), y = norm * 2;"}), 1u);
  EXPECT_EQ(faults({"int ranks, tokens;", "int64_t rows = ranks * tokens / 2;",
                    "double* const values = p;"}),
            0u);
  EXPECT_EQ(faults({norm, "MeshCommunicator* group = g; f(norm, *group);"}), 0u);
  EXPECT_EQ(faults({"size_t count; const size_t bytes = 10'000 * count;  // 0.5 * y",
                    "x = f(\"0.5 * y\");"}),
            0u);
  const SourceFile header{"parallel/store/s.h", {"struct S { double gradientScale = 1; };"}};
  const SourceFile user{"parallel/engine/e.cc", {"x = s.gradientScale * y;"}};
  const SourceFile kernel{"parallel/kernels/host/k.cc", {"x = 0.5 * y;"}};
  EXPECT_EQ(scalesWithoutPurpose({header, user, kernel}, {}),
            Faults{"parallel/engine/e.cc:1: a factor without a purpose: " + user.lines[0]});
  EXPECT_EQ(scalesWithoutPurpose({header, user}, {{"parallel/engine/", "gradientScale", "tried"}}),
            Faults{});
  EXPECT_EQ(scalesWithoutPurpose({header}, {{"parallel/engine/", "gradientScale", "tried"}}),
            Faults{"parallel/engine/: nothing there is allowed by: tried"});
}

size_t scalesIn(const std::vector<std::string>& lines) {
  return scalesWithoutPurpose({{"parallel/nn/n.cc", lines}}, {}).size();
}

// What is not known to be integers is taken for numbers that are scaled.
TEST(Mutations, OfQuotientsAreRefusedUnlessAllIsInteger) {
  for (const std::string scaled :
       {"x / n", "x[i] / n", "y[i].z / n", "f(y) / n", "(x + y) / n", "n / x", "x /= n", "x *= n",
        "x[i] *= 2", "x->y /= n", "x.as<T>()[i] / n", "static_cast<T>(n) / n", "std::max(x, n) / n",
        "n * (n + x)", "sum() / n", "n / static_cast<double>(n)"})
    EXPECT_EQ(scalesIn({"template <class T> void g(T x, const T* y, int n) {", scaled + "; }"}), 1u)
        << scaled;
  for (const std::string whole :
       {"n / m", "n * a[i]", "a[n] / n", "s.rows.count() * n", "t.shape[1] / n",
        "(n + m - 1) / m * m", "static_cast<size_t>(n) * m", "int64_t(n) * m", "std::max(n, 1) * m",
        "n *= m", "sizeof(x) * n", "a.size() / 2", "n / -m", "list[i] * n", "2 * k", "k * both"})
    EXPECT_EQ(scalesIn({"int n, m; std::vector<int64_t> a; struct { int64_t count(); };",
                        "Shape shape; const std::vector<size_t>& list = f();",
                        "const auto k = static_cast<int64_t>(n), both = n + m;", whole + ";"}),
              0u)
        << whole;
}

TEST(Mutations, OfFunctionsThatScaleAreRefused) {
  for (const std::string call :
       {"std::ldexp(x, -1)", "ldexp(x, n)", "std::scalbn(x, 2)", "std::fma(x, y, z)",
        "std::lerp(x, y, t)", "std::midpoint(x, y)", "std::transform(b, e, b, std::divides<>())",
        "std::accumulate(b, e, x, std::multiplies<T>())"}) {
    EXPECT_EQ(scalesIn({"loss = " + call + ";"}), 1u) << call;
    EXPECT_EQ(scalesIn({"loss = factor(Purpose::LossPerToken, " + call + ");"}), 0u) << call;
  }
  EXPECT_EQ(scalesIn({"log(\"std::ldexp(x, 1)\");  // std::ldexp(x, 1)", "x.fma(1, 2);"}), 0u);
}

// Kernels multiply by what they are given: what a line makes up is refused, what it hands on is
// not.
TEST(Mutations, OfArgumentsOfKernelsAreRefused) {
  for (const std::string field : {"alpha", "beta", "betaWeight", "scale", "gradientScale"})
    for (const std::string& value :
         {std::string("0.5"), std::string("first ? 0.0 : 1.0"), std::string("-slot.beta"),
          std::string("static_cast<double>(n)"), std::string("1"), std::string("made")}) {
      const std::string made = "const double made = n > 0 ? 0.5 : 1, other = slot.beta;";
      EXPECT_EQ(scalesIn({made, "k.gemm({.a = a, ." + field + " = " + value + ", .c = c});"}), 1u)
          << field << value;
      EXPECT_EQ(scalesIn({made, "slot." + field + " = " + value + ";"}), 1u) << field << value;
      EXPECT_EQ(
          scalesIn({made, "k.gemm({.a = a, ." + field + " = factor(purpose, " + value + ", 0)});"}),
          0u);
    }
  for (const std::string value :
       {"slot.beta", "args.scale", "slots_[i]->beta", "c.store.beta(p)", "other"})
    EXPECT_EQ(
        scalesIn({"const double other = factor(purpose, 2);", "k.gemm({.beta = " + value + "});"}),
        0u)
        << value;
  EXPECT_EQ(scalesIn({"struct Args { double beta = 0; double betaWeight = 0, betaBias = 1; };",
                      "void f(double scale = 1, double alpha = 2);", "makeAdamW({.beta1 = 0.8});"}),
            0u);
  for (const std::string call : {"kernels_.biasGradient(dy, db, 0.5)", "c.kernels.add(x, 2, y)",
                                 "kernels->add(x, n ? slot.beta : 1)"})
    EXPECT_EQ(scalesIn({call + ";"}), 1u) << call;
  for (const std::string call : {"kernels_.biasGradient(dy, db, slot.beta)", "kernels_.fillZero(x)",
                                 "kernels.copy(rows.part(0, 2, 1), out)", "kernels_.gemm({.a = x})",
                                 "kernels.add(x, y, factor(purpose, 0.5))"})
    EXPECT_EQ(scalesIn({call + ";"}), 0u) << call;
}

}  // namespace
}  // namespace tutti::repository
