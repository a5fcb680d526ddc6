// Kernels that are kept and launched as graphs: the same results as one by one, a graph from the
// second time on, another one for other operands, and what becomes of those that are kept when the
// host waits, when something throws, and in a training.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/data/loader.h"
#include "parallel/engine/engine.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/tables.h"
#include "parallel/nn/gpt.h"
#include "parallel/optim/optimizer.h"
#include "tests/parallel/kernels/cuda/sequences.h"
#include "tests/parallel/kernels/cuda/setting.h"

namespace tutti::parallel {
namespace {

using tests::expectError;
using tests::gpu;
using tests::outcomeOf;

TEST_F(Sequences, AreGraphsFromTheSecondTimeOn) {
  const Chain one = chain(), kept = chain();
  for (int time = 0; time < 4; ++time) {
    for (const Chain* c : {&one, &kept}) {
      fill(c->x, 1 + static_cast<float>(time));
      fill(c->weight, -2);
    }
    call(kernels_, one);
    inSequence(kernels_, true, [&] { call(kernels_, kept); });
    EXPECT_EQ(kernels_.graphLaunches(), time);
    EXPECT_EQ(results(kept), results(one)) << "time " << time;
  }
}

// Sums over rows, whose counters each of them leaves as it found them.
TEST_F(Sequences, CountSlicesAnew) {
  const Tensor wide = make({300, 136}), narrow = make({129, 40});
  fill(wide, -1), fill(narrow, 2);
  const auto sums = [&](Kernels& kernels, const Tensor& wider, const Tensor& narrower) {
    kernels.biasGradient(wide, wider, 1);
    kernels.biasGradient(narrow, narrower, 1);
    kernels.biasGradient(wide, wider, 1);
  };
  const Tensor one[] = {make({136}), make({40})}, kept[] = {make({136}), make({40})};
  for (int time = 0; time < 4; ++time) {
    sums(kernels_, one[0], one[1]);
    inSequence(kernels_, true, [&] { sums(kernels_, kept[0], kept[1]); });
    EXPECT_EQ(kernels_.graphLaunches(), time);
    for (const int64_t c : {0, 135}) {
      double sum = 0;
      for (int64_t row = 0; row < 300; ++row) sum += wide.as<float>()[row * 136 + c];
      EXPECT_EQ(values(kept[0])[static_cast<size_t>(c)], 2 * (time + 1) * sum);
    }
    for (const size_t i : {0, 1}) EXPECT_EQ(values(kept[i]), values(one[i])) << "time " << time;
  }
}

// To make a graph waits for the device, where another rank's collective may wait for this one.
TEST_F(Sequences, AreNoGraphsBesideOthersOfTheDevice) {
  const Chain c = chain();
  const auto twice = [&] {
    for (int time = 0; time < 2; ++time) {
      fill(c.x, 1);
      fill(c.weight, -2);
      inSequence(kernels_, true, [&] { call(kernels_, c); });
    }
    return kernels_.graphLaunches();
  };
  {
    CudaKernels other{stream_};
    EXPECT_EQ(twice(), 0);
  }
  const auto before = values(c.copied);
  EXPECT_EQ(twice(), 1);
  EXPECT_EQ(values(c.copied), before);
}

TEST_F(Sequences, WithOtherOperandsOrNumbersAreOthers) {
  const Tensor x = make({4, 6}), y = make({4, 6}), z = make({4, 6});
  fill(x, 1);
  const auto twice = [&](const Tensor& to, double beta) {
    inSequence(kernels_, true, [&] {
      kernels_.gelu(x, y);
      kernels_.gemm({.a = x, .b = y, .c = to.part(1, 0, 4), .transposeB = true, .beta = beta});
    });
    return kernels_.graphLaunches();
  };
  EXPECT_EQ(twice(z, 0), 0);
  EXPECT_EQ(twice(z, 0), 1);
  EXPECT_EQ(twice(z, 1), 1);  // adds to what is there
  const Tensor other = make({4, 6});
  EXPECT_EQ(twice(other, 0), 1);
  const std::vector<float> once = values(other), added = values(z);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t k = 0; k < 4; ++k) {
      const auto at = static_cast<size_t>(6 * i + k);
      EXPECT_EQ(added[at], 2 * once[at]);
    }
  EXPECT_EQ(twice(z, 1), 2);
  EXPECT_EQ(twice(other, 0), 3);
}

TEST_F(Sequences, AreForgottenWhereThereAreMoreThanAreRemembered) {
  constexpr auto kMost = static_cast<int64_t>(cuda::Graphs::kMost);
  const Tensor each = make({2 * kMost, 1}), last = make({1});
  const auto launchesBehind = [&](int64_t which) {
    inSequence(kernels_, true, [&] {
      kernels_.fillZero(each.part(0, which, 1));
      kernels_.fillZero(last);
    });
    return kernels_.graphLaunches();
  };
  for (int64_t i = 0; i < kMost; ++i) EXPECT_EQ(launchesBehind(i), 0);
  EXPECT_EQ(launchesBehind(0), 1);
  EXPECT_EQ(launchesBehind(kMost - 1), 2);
  EXPECT_EQ(launchesBehind(kMost), 2);  // those without a graph are forgotten for it
  EXPECT_EQ(launchesBehind(1), 2);
  EXPECT_EQ(launchesBehind(0), 3);
  EXPECT_EQ(launchesBehind(kMost - 1), 4);
  EXPECT_EQ(launchesBehind(1), 5);
  EXPECT_EQ(launchesBehind(kMost), 6);
  for (int64_t i = 2; i < kMost - 2; ++i) launchesBehind(i);
  static_cast<void>(values(each));  // waits
  fill(each, 1);
  const std::vector<float> filled = values(each);
  const int64_t before = kernels_.graphLaunches();
  for (int64_t i = 2; i < kMost - 2; ++i) launchesBehind(i);
  EXPECT_EQ(kernels_.graphLaunches(), before + kMost - 4) << "so many graphs, and no more";
  for (int time = 0; time < 2; ++time) EXPECT_EQ(launchesBehind(2 * kMost - 1), before + kMost - 4);
  const std::vector<float> left = values(each);
  for (int64_t i = 0; i < 2 * kMost; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool isZero = (i >= 2 && i < kMost - 2) || i == 2 * kMost - 1;
    EXPECT_EQ(left[at], isZero ? 0 : filled[at]) << i;
  }
}

TEST_F(Sequences, AreStartedWhereTheHostWaits) {
  const Tensor x = make({3, 4}), logits = make({3, 4}), statistics = make({1, 3, 3});
  const Tensor labels = make({3}, DType::Int32);
  for (int time = 0; time < 3; ++time) {
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<float>()[i] = static_cast<float>((time + 1) * (i % 5));
    double loss = 0;
    inSequence(kernels_, true, [&] {
      kernels_.fillZero(logits);
      kernels_.add(x, logits);
      kernels_.logitStatistics({.logits = logits, .labels = labels, .statistics = statistics});
      loss = kernels_.crossEntropy(
          {.logits = logits, .labels = labels, .statistics = statistics, .gradient = false});
    });
    EXPECT_EQ(kernels_.graphLaunches(), 2 * time);  // before the loss, and behind its statistics
    CudaKernels one{stream_};
    one.logitStatistics({.logits = x, .labels = labels, .statistics = statistics});
    EXPECT_EQ(loss,
              one.crossEntropy(
                  {.logits = x, .labels = labels, .statistics = statistics, .gradient = false}))
        << "time " << time;
  }
}

TEST_F(Sequences, ThatFailAreForgotten) {
  const Tensor x = make({8});
  const auto badly = [&] {
    inSequence(kernels_, true, [&] {
      kernels_.fillZero(x);
      throw std::runtime_error("on purpose");
    });
  };
  fill(x, 3);
  const std::vector<float> before = values(x);
  EXPECT_THROW(badly(), std::runtime_error);
  EXPECT_EQ(values(x), before);
  kernels_.add(x, x);
  EXPECT_EQ(values(x)[0], 6);
}

// A caller who captures the stream has the kernels in his graph, and not a launch of another one.
TEST_F(Sequences, GoToTheGraphOfWhoCaptures) {
  const Tensor x = make({8}), y = make({8});
  const auto twice = [&] {
    inSequence(kernels_, true, [&] {
      kernels_.add(x, y);
      kernels_.add(x, y);
    });
  };
  fill(x, 1);
  twice();
  twice();
  EXPECT_EQ(values(y)[0], 4);
  ASSERT_EQ(cudaStreamBeginCapture(StreamRef(stream_).cuda(), cudaStreamCaptureModeRelaxed),
            cudaSuccess);
  twice();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(StreamRef(stream_).cuda(), &graph), cudaSuccess);
  EXPECT_EQ(values(y)[0], 4);
  EXPECT_EQ(kernels_.graphLaunches(), 1);
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(ready, StreamRef(stream_).cuda()), cudaSuccess);
  EXPECT_EQ(values(y)[0], 6);
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// Ids are looked at while the host waits, which it cannot where somebody captures: what is refused
// there leaves nothing behind for the calls that follow.
TEST_F(Sequences, LookAtNoIdsWhereSomebodyCaptures) {
  const Tensor ids = make({1, 3}, DType::Int32), table = make({5, 8}), x = make({1, 3, 8}),
               labels = make({3}, DType::Int32), logits = make({3, 8});
  fill(table, 1);
  const auto embedding = [&] { kernels_.embedding({.tokenIds = ids, .tokens = table, .x = x}); };
  const auto loss = [&] { kernels_.crossEntropy({.logits = logits, .labels = labels}); };
  for (const std::function<void()>& call :
       {std::function<void()>(embedding), std::function<void()>(loss)}) {
    ASSERT_EQ(cudaStreamBeginCapture(StreamRef(stream_).cuda(), cudaStreamCaptureModeRelaxed),
              cudaSuccess);
    EXPECT_EQ(outcomeOf(call).code, ErrorCode::Cuda);
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(StreamRef(stream_).cuda(), &graph), cudaSuccess);
    cudaGetLastError();
    fill(x, 0);
    embedding();
    EXPECT_EQ(values(x)[0], 1);
    ids.as<int32_t>()[1] = 5;
    expectError(outcomeOf(embedding), ErrorCode::InvalidArgument, "id 5");
    ids.as<int32_t>()[1] = 4;
    loss();
  }
}

TEST_F(Sequences, AreNoGraphsWhereNobodyWantsThem) {
  {
    const Setting none("TUTTI_GRAPHS", "0");
    const Chain c = chain();
    CudaKernels kernels{stream_};
    for (int time = 0; time < 3; ++time) inSequence(kernels, true, [&] { call(kernels, c); });
    EXPECT_EQ(kernels.graphLaunches(), 0);
  }
  for (const char* const name : {"TUTTI_GRAPHS", "TUTTI_POISON_SCRATCH"}) {
    const Setting wrong(name, "yes");
    expectError(outcomeOf([&] { CudaKernels{stream_}; }), ErrorCode::InvalidArgument,
                std::string(name) + " is 0 or 1, not yes");
  }
}

// What the call before has left there is overwritten before the next one, of what this one asks
// for.
TEST_F(Sequences, FindScratchPoisonedWhereThatIsWanted) {
  constexpr int64_t kCount = 1000, kSome = 10;
  for (const bool wanted : {false, true}) {
    std::optional<Setting> poison;
    if (wanted) poison.emplace("TUTTI_POISON_SCRATCH", "1");
    cuda::Queue queue(stream_);
    auto* const numbers = queue.scratch<float>(kCount);
    auto* const results = queue.results<float>(kCount);
    queue.fillZero("zeros", numbers, kCount * sizeof(float));
    queue.fillZero("zeros", results, kCount * sizeof(float));
    EXPECT_EQ(queue.scratch<float>(kSome), numbers);
    EXPECT_EQ(queue.results<float>(kSome), results);
    std::vector<float> there(2 * kCount, -1);
    queue.copy("read", there.data(), numbers, kCount * sizeof(float));
    queue.copy("read", there.data() + kCount, results, kCount * sizeof(float));
    queue.finish("read", true);
    for (int64_t i = 0; i < 2 * kCount; ++i)
      EXPECT_EQ(std::isnan(there[static_cast<size_t>(i)]), wanted && i % kCount < kSome) << i;
  }
}

// Graphs know where scratch was, and to free it would wait for what this thread has yet to enqueue.
TEST_F(Sequences, KeepTheScratchThatWasTooSmall) {
  cuda::Queue queue(stream_);
  const auto isThere = [](const void* memory, cudaMemoryType type) {
    cudaPointerAttributes attributes{};
    return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess && attributes.type == type;
  };
  const void *const small = queue.scratch<float>(10), *const few = queue.results<float>(10);
  EXPECT_NE(queue.scratch<float>(int64_t{1} << 20), small);
  EXPECT_NE(queue.results<float>(int64_t{1} << 20), few);
  EXPECT_TRUE(isThere(small, cudaMemoryTypeDevice));
  EXPECT_TRUE(isThere(few, cudaMemoryTypeHost));
}

// Of one launch there is no graph: as many weights as a table has are one, and one more are two.
TEST_F(Sequences, OfUpdatesOfManyWeights) {
  constexpr size_t kOfTable = cuda::TensorTable<4>::kMost;
  for (const size_t count : {kOfTable, kOfTable + 1}) {
    std::vector<AdamWTensors> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back(
          {.weight = make({9}), .gradient = make({9}), .first = make({9}), .second = make({9})});
    for (const AdamWTensors& each : all) fill(each.gradient, 1);
    const int64_t before = kernels_.graphLaunches();
    for (int time = 0; time < 3; ++time)
      inSequence(kernels_, true, [&] {
        kernels_.adamW({.tensors = all, .learningRate = 0.5, .beta1 = 0, .beta2 = 0, .epsilon = 0});
      });
    // A gradient above zero is a step of the whole rate.
    for (const AdamWTensors& each : all)
      EXPECT_EQ(values(each.weight), std::vector<float>(9, -1.5));
    EXPECT_EQ(kernels_.graphLaunches() - before, count > kOfTable ? 2 : 0);
  }
}

struct Trained {
  std::vector<std::vector<char>> weights;
  std::vector<double> losses;
  int64_t graphLaunches;
};

/// Three steps of two micro-batches.
Trained train(Recompute recompute) {
  constexpr GptOptions kOptions{
      .vocabulary = 11, .context = 6, .layers = 3, .width = 8, .heads = 2};
  GptOptions options = kOptions;
  options.recompute = recompute;
  std::vector<uint8_t> text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<uint8_t>(i * i % 11));
  DeviceMesh mesh(gpu(0));
  CudaKernels kernels(mesh.stream());
  Gpt model(options);
  Engine engine(mesh, kernels, model, {.reductionGroups = 2});
  Loader loader(TokenView::owning(text), options.context, 4, 7);
  const auto adamW = makeAdamW({});
  Trained result;
  for (int64_t step = 0; step < 3; ++step)
    result.losses.push_back(engine.step(loader, step, *adamW, 0.01).loss);
  for (const Parameter* parameter : engine.store().declared()) {
    const Tensor master = engine.store().master(*parameter);
    result.weights.emplace_back(master.bytes());
    mesh.download(master, result.weights.back().data());
  }
  result.graphLaunches = kernels.graphLaunches();
  return result;
}

// Of three blocks and six micro-batches the forward and the backward pass are the same in all, of
// which the first one is not a graph yet; of weight gradients, which the head and the embedding
// have, too, the first of each step is overwritten and the second added to.
TEST_F(SequencesWithoutKernels, OfATrainingHaveTheBitsOfSingleKernels) {
  for (const auto recompute : {Recompute::None, Recompute::Attention, Recompute::Block}) {
    const Trained graphs = train(recompute);
    const Setting none("TUTTI_GRAPHS", "0");
    const Trained single = train(recompute);
    EXPECT_EQ(graphs.losses, single.losses);
    EXPECT_EQ(graphs.weights, single.weights);
    EXPECT_EQ(single.graphLaunches, 0);
    EXPECT_EQ(graphs.graphLaunches, 3 * (5 + 5 + 2 + 2) + 2 * (2 + 2));
  }
}

}  // namespace
}  // namespace tutti::parallel
