// What calls of a GPU's kernels do besides computing: what they refuse, in the host's words; whose
// device stays current; memory; that all kernels are loaded ahead.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/kernels/tested_kernels.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

class CudaCalls : public testing::Test {
 protected:
  Tensor make(const Shape& shape, DType type = DType::Float32) {
    const Tensor x = tested_->allocate(type, shape);
    if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
    return x;
  }
  Tensor numbers(std::vector<int32_t> values, const Shape& shape) {
    const Tensor x = make(shape, DType::Int32);
    std::copy(values.begin(), values.end(), x.as<int32_t>());
    return x;
  }
  /// What the call says when it throws InvalidArgument.
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
      return error.what();
    }
    return "no refusal";
  }
  void expectSameRefusal(const std::function<void(Kernels&)>& call, const std::string& words) {
    EXPECT_EQ(refusal([&] { call(host_); }), words);
    EXPECT_EQ(refusal([&] { call(kernels_); }), words);
  }

  const std::unique_ptr<TestedKernels> tested_ = testedDevices().front().make();
  Kernels& kernels_ = tested_->kernels();
  HostKernels host_;
};

// The first of several that are not there, in the words of the host.
TEST_F(CudaCalls, RefuseIdsThatAreNotThere) {
  const Tensor ids = numbers({0, 1, 9, 4, -1, 2}, {2, 3}),
               good = numbers({0, 1, 0, 3, 4, 2}, {2, 3});
  const Tensor at = numbers({0, 6, 1}, {3}), table = make({5, 4}), x = make({2, 3, 4});
  const auto embedding = [&](const Tensor& of, const Tensor& places) {
    return [&, of, places](Kernels& k) {
      k.embedding({.tokenIds = of, .tokens = table, .positions = table, .x = x, .at = places});
    };
  };
  const auto weights = [&](const Tensor& of, const Tensor& places) {
    return [&, of, places](Kernels& k) {
      k.embeddingWeights(
          {.tokenIds = of, .dx = x, .dTokens = table, .dPositions = table, .at = places});
    };
  };
  expectSameRefusal(embedding(ids, {}), "embedding: id 9 is not in [0, 5)");
  expectSameRefusal(embedding(ids, at), "embedding: id 6 is not in [0, 5)");
  expectSameRefusal(embedding(good, at), "embedding: id 6 is not in [0, 5)");
  const Tensor there = numbers({0, 4, 1}, {3});
  expectSameRefusal(embedding(ids, there), "embedding: id 9 is not in [0, 5)");
  expectSameRefusal(weights(ids, {}), "embeddingWeights: id 9 is not in [0, 5)");
  expectSameRefusal(weights(good, at), "embeddingWeights: id 6 is not in [0, 5)");
  // Nothing is left of it for the next call.
  EXPECT_EQ(refusal([&] { embedding(good, {})(kernels_); }), "no refusal");
  const Tensor labels = numbers({-1, -2}, {2}), logits = make({2, 5}), statistics = make({1, 2, 3});
  expectSameRefusal(
      [&](Kernels& k) {
        k.logitStatistics({.logits = logits, .labels = labels, .statistics = statistics});
      },
      "logitStatistics: id -2 is not in [0, 5)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.crossEntropy({.logits = logits, .labels = labels, .statistics = statistics});
      },
      "crossEntropy: id -2 is not in [0, 5)");
  const Tensor angles = make({5, 2});
  expectSameRefusal(
      [&](Kernels& k) {
        k.rotary({.x = x, .cosine = angles, .sine = angles, .at = at, .heads = 1, .headWidth = 4});
      },
      "rotary: id 6 is not in [0, 5)");
}

// Of more ids than a block looks at in one go: in each of these, at their edges, and the first
// where there are several.
TEST_F(CudaCalls, FindTheFirstIdThatIsNotThereOfMany) {
  constexpr int64_t kCount = 2 * 4096 + 5;
  const Tensor ids = make({1, kCount}, DType::Int32), table = make({5, 1}),
               x = make({1, kCount, 1});
  const auto embedding = [&] {
    return refusal([&] {
      kernels_.embedding({.tokenIds = ids, .tokens = table, .positions = {}, .x = x, .at = {}});
    });
  };
  EXPECT_EQ(embedding(), "no refusal");
  tested_->finish();  // it reads the ids
  for (const int64_t place : {kCount - 1, int64_t{8192}, int64_t{4096}, int64_t{4095},
                              int64_t{1024}, int64_t{1023}, int64_t{0}}) {
    ids.as<int32_t>()[place] = 7 + static_cast<int32_t>(place);
    EXPECT_EQ(embedding(), "embedding: id " + std::to_string(7 + place) + " is not in [0, 5)");
  }
}

// They are looked at beside the kernel that takes them, but behind what the stream has before: here
// what writes them, late. With a result that the host waits for, and without.
TEST_F(CudaCalls, LookAtIdsWhenTheStreamComesToThem) {
  Stream stream(Device{DeviceKind::Cuda, 0});
  CudaKernels kernels(stream);
  const Tensor ids = make({1, 4}, DType::Int32), table = make({5, 1}), x = make({1, 4, 1});
  const Tensor labels = make({4}, DType::Int32), logits = make({4, 5});
  struct Write {
    int32_t* to;
    int32_t value;
  };
  const auto late = [&](const Tensor& to, int32_t value) {
    static Write write;
    write = {to.as<int32_t>() + 2, value};
    const auto wait = [](void* of) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto& [number, next] = *static_cast<Write*>(of);
      *number = next;
    };
    ASSERT_EQ(cudaLaunchHostFunc(StreamRef(stream).cuda(), wait, &write), cudaSuccess);
  };
  const auto embedding = [&] {
    return refusal([&] { kernels.embedding({.tokenIds = ids, .tokens = table, .x = x}); });
  };
  const auto loss = [&] {
    return refusal([&] { kernels.crossEntropy({.logits = logits, .labels = labels}); });
  };
  for (int i = 0; i < 3; ++i) {
    late(ids, 7);
    EXPECT_EQ(embedding(), "embedding: id 7 is not in [0, 5)");
    late(ids, 4);
    EXPECT_EQ(embedding(), "no refusal");
    late(labels, 8);
    EXPECT_EQ(loss(), "crossEntropy: id 8 is not in [0, 5)");
    late(labels, -1);
    EXPECT_EQ(loss(), "no refusal");
  }
}

// Of two operands with ids both are waited for; and a refusal comes when no kernel of the call
// reads them any more: this one has far more to do than what looks at ids.
TEST_F(CudaCalls, RefuseWhenNothingReadsIdsAnyMore) {
  constexpr int64_t kRows = 64, kContext = 4, kWidth = 1024;
  Stream stream(Device{DeviceKind::Cuda, 0});
  CudaKernels kernels(stream);
  const Tensor ids = make({kRows, kContext}, DType::Int32), at = numbers({0, 3, 1, 4}, {kContext}),
               table = make({5, kWidth}), x = make({kRows, kContext, kWidth});
  int32_t& last = ids.as<int32_t>()[ids.count() - 1];
  for (int i = 0; i < 10; ++i)
    for (const int32_t id : {4, 5}) {
      last = id;
      EXPECT_EQ(refusal([&] {
                  kernels.embedding(
                      {.tokenIds = ids, .tokens = table, .positions = table, .x = x, .at = at});
                }),
                id == 4 ? "no refusal" : "embedding: id 5 is not in [0, 5)");
      EXPECT_TRUE(id == 4 || cudaStreamQuery(StreamRef(stream).cuda()) == cudaSuccess);
      stream.synchronize();
    }
}

// Also where the host waits for the kernels' result, whichever of both is there first.
TEST_F(CudaCalls, WaitForIdsBesideResults) {
  const Tensor labels = make({1}, DType::Int32), logits = make({1, 8});
  for (int i = 0; i < 300; ++i)
    for (const int32_t label : {8, 7}) {
      labels.as<int32_t>()[0] = label;
      EXPECT_EQ(refusal([&] { kernels_.crossEntropy({.logits = logits, .labels = labels}); }),
                label == 7 ? "no refusal" : "crossEntropy: id 8 is not in [0, 8)")
          << i;
    }
}

// Where all choices are dropped there may be no places at all.
TEST_F(CudaCalls, MoveNoRowsWhereThereAreNoPlaces) {
  const Tensor dropped = numbers({-1, -1, -1}, {3, 1}), one = numbers({-1, 0, -1}, {3, 1});
  const Tensor rows = make({3, 4}), none = make({0, 4});
  const auto spread = [&](const Tensor& places) {
    return [&, places](Kernels& k) {
      k.spreadRows({.x = rows, .places = places, .weights = {}, .y = none});
    };
  };
  const auto combine = [&](const Tensor& places) {
    return [&, places](Kernels& k) {
      k.combineRows({.x = none, .places = places, .weights = {}, .y = rows});
    };
  };
  expectSameRefusal(spread(dropped), "no refusal");
  expectSameRefusal(spread(one), "spreadRows: place: 0 is not in [-1, 0)");
  expectSameRefusal(combine(one), "combineRows: place: 0 is not in [-1, 0)");
  tested_->finish();
  std::fill_n(rows.as<float>(), rows.count(), 3.0f);
  EXPECT_EQ(refusal([&] { combine(dropped)(kernels_); }), "no refusal");
  tested_->finish();
  for (int64_t i = 0; i < rows.count(); ++i) EXPECT_EQ(rows.as<float>()[i], 0) << i;
}

TEST_F(CudaCalls, RefuseExpertsAndPlacesThatAreNotThere) {
  const Tensor chosen = numbers({2, 0, 3, 7}, {4, 1}), pieces = make({1, 2, 3}, DType::Int32);
  const Tensor places = numbers({-1, 3, -2, 4}, {4, 1}), rows = make({4, 2}), placed = make({4, 2}),
               weights = make({4, 1}), logits = make({4, 3}), choices = make({1, 3}, DType::Int32);
  std::vector<int64_t> loads(3);
  expectSameRefusal([&](Kernels& k) { k.countChoices({.chosen = chosen, .choices = pieces}); },
                    "countChoices: expert: 3 is not in [0, 3)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.placeTokens({.chosen = chosen,
                       .places = make({4, 1}, DType::Int32),
                       .pieces = pieces,
                       .choices = choices,
                       .length = 4,
                       .loads = loads});
      },
      "placeTokens: expert: 3 is not in [0, 3)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.routerGradient({.dWeights = weights,
                          .probabilities = logits,
                          .logSumExp = make({4}),
                          .chosen = chosen,
                          .weights = weights,
                          .choices = choices,
                          .dLogits = make({4, 3}),
                          .length = 4});
      },
      "routerGradient: expert: 3 is not in [0, 3)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.spreadRows({rows, places, {}, placed});
      },
      "spreadRows: place: -2 is not in [-1, 4)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.combineRows({placed, places, {}, rows});
      },
      "combineRows: place: -2 is not in [-1, 4)");
  expectSameRefusal(
      [&](Kernels& k) {
        k.rowDots({rows, placed, places, weights});
      },
      "rowDots: place: -2 is not in [-1, 4)");
}

TEST_F(CudaCalls, RefuseWhatTheyCannotCount) {
  const Tensor many(nullptr, DType::Float32, {int64_t{1} << 30, 0}), none = make({0, 1});
  try {
    kernels_.gemm(
        {.a = many, .b = none, .c = Tensor(nullptr, DType::Float32, {int64_t{1} << 30, 1})});
    ADD_FAILURE() << "2^30 rows were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported) << error.what();
  }
  EXPECT_EQ(refusal([] { CudaKernels kernels{StreamRef()}; }),
            "the CUDA kernels need a stream of CUDA");
}

/// The same operands for both norms, of one type; the weight and what is summed in float32.
struct NormOperands {
  Tensor dy, x, weight, mean, rstd, dx, dWeight, dBias, sums{};
};
NormSlicesArgs slicesArgsOf(const NormOperands& o) { return {o.dy, o.x, o.weight, {}, o.dx}; }

void normGradients(Kernels& kernels, const NormOperands& o, bool centered, double beta) {
  if (centered) {
    kernels.layerNormBackward({o.dy, o.x, o.weight, o.mean, o.rstd, {}, o.dx, o.sums});
    kernels.layerNormWeights(
        {o.dy, o.x, o.mean, o.rstd, o.dWeight, o.dBias, beta, 1 - beta, o.sums});
  } else {
    kernels.rmsNormBackward({o.dy, o.x, o.weight, o.rstd, {}, o.dx, o.sums});
    kernels.rmsNormWeights({o.dy, o.x, o.rstd, o.dWeight, beta, o.sums});
  }
}

// Sums of slices of the rows in the place of a second look: exact in small integers, of one slice
// and of several. What is not for words of 16 bytes, and float64, has none, as a dry run says.
TEST_F(CudaCalls, LeaveSumsOfNorms) {
  const DryKernels dry(DeviceKind::Cuda);
  const auto operands = [&](int64_t rows, int64_t width, DType type) {
    NormOperands o{make({rows, width}, type),
                   make({rows, width}, type),
                   make({width}),
                   make({rows}),
                   make({rows}),
                   make({rows, width}, type),
                   make({width}),
                   make({width})};
    EXPECT_EQ(dry.normSlices(slicesArgsOf(o)), kernels_.normSlices(slicesArgsOf(o)));
    return o;
  };
  EXPECT_EQ(kernels_.normSlices(slicesArgsOf(operands(9, 12, DType::BFloat16))), 0);
  EXPECT_EQ(kernels_.normSlices(slicesArgsOf(operands(9, 8200, DType::BFloat16))), 0);
  EXPECT_EQ(kernels_.normSlices(slicesArgsOf(operands(9, 16, DType::Float64))), 0);
  EXPECT_EQ(kernels_.normSlices(slicesArgsOf(operands(0, 16, DType::Float32))), 0);
  for (const int64_t rows : {5, 40})
    for (const bool centered : {false, true})
      for (const double beta : {0.0, 1.0}) {
        NormOperands with = operands(rows, 24, DType::Float32);
        const int64_t slices = kernels_.normSlices(slicesArgsOf(with));
        ASSERT_EQ(slices, (rows + 15) / 16);
        for (int64_t i = 0; i < with.x.count(); ++i) {
          with.dy.as<float>()[i] = static_cast<float>(i * 5 % 7 - 3);
          with.x.as<float>()[i] = static_cast<float>(i / 3 % 5 - 2);
        }
        std::fill_n(with.rstd.as<float>(), rows, 0.5f);
        std::fill_n(with.mean.as<float>(), rows, 1.0f);
        for (const Tensor& sum : {with.dWeight, with.dBias}) std::fill_n(sum.as<float>(), 24, 3.0f);
        NormOperands without = with;
        without.dx = make({rows, 24});
        for (Tensor* sum : {&without.dWeight, &without.dBias}) {
          *sum = make({24});
          std::fill_n(sum->as<float>(), 24, 3.0f);
        }
        with.sums = make({centered ? 2 : 1, slices, 24});
        std::fill_n(with.sums.as<float>(), with.sums.count(), NAN);
        normGradients(kernels_, with, centered, beta);
        normGradients(host_, without, centered, beta);
        tested_->finish();
        for (int64_t c = 0; c < 24; ++c) {
          EXPECT_EQ(with.dWeight.as<float>()[c], without.dWeight.as<float>()[c]) << c;
          EXPECT_EQ(with.dBias.as<float>()[c], without.dBias.as<float>()[c]) << c;
        }
        for (const int64_t wrong : {slices + 1, 2 * slices + 1}) {
          with.sums = make({centered ? 2 : 1, wrong, 24});
          EXPECT_NE(refusal([&] { normGradients(kernels_, with, centered, beta); }), "no refusal");
        }
      }
}

// Whichever device is current.
TEST_F(CudaCalls, LeaveTheCurrentDeviceAsItWas) {
  if (deviceCount(DeviceKind::Cuda) < 3) GTEST_SKIP() << "three GPUs are needed";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    Stream stream(Device{DeviceKind::Cuda, 2});
    CudaKernels kernels(stream);
    const Tensor x = make({3}), y = make({3}), strided = make({3, 4});
    x.as<float>()[1] = 5;
    ExactSum sum;
    kernels.add(x, y);
    kernels.copy(x, y);
    kernels.addSquares({&y, 1}, sum);
    kernels.fillZero(x);
    kernels.copy(strided.part(1, 0, 2), strided.part(1, 2, 2));
    stream.synchronize();
    EXPECT_EQ(sum.value(), 25);
    EXPECT_EQ(x.as<float>()[1], 0);
  }
  int current = -1;
  EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 1);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

size_t freeBytes() {
  size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return free;
}

// Memory besides operands is taken by the first call that needs so much.
TEST_F(CudaCalls, AllocateNothingAfterTheFirst) {
  const auto call = [&](int64_t tokens, int64_t context) {
    kernels_.embeddingWeights({.tokenIds = make({1, tokens}, DType::Int32),
                               .dx = make({1, tokens, 2}),
                               .dTokens = make({3, 2}),
                               .dPositions = {},
                               .at = {}});
    const Tensor qkv = make({1, context, 6}), out = make({1, context, 2}),
                 sums = make({1, 1, context});
    Arena unused{"scratch"};
    kernels_.attentionBackward({out, qkv, out, sums, make({1, context, 6}), 1, 1}, unused);
    tested_->finish();
  };
  const size_t before = freeBytes();
  call(3000, 20);
  const size_t first = freeBytes();
  EXPECT_LE(first, before);  // a GPU may have had room in what it had given out
  for (const int64_t tokens : {3000, 1, 200}) call(tokens, 20);
  EXPECT_EQ(freeBytes(), first);
}

// More elements than a launch has threads.
TEST_F(CudaCalls, ComputeAllOfMany) {
  constexpr int64_t kMany = (int64_t{1} << 20) + 300;
  const Tensor x = make({kMany}), sums = make({kMany});
  for (int64_t i = 0; i < kMany; ++i) x.as<float>()[i] = static_cast<float>(i);
  kernels_.add(x, sums);
  kernels_.add(x, sums);
  tested_->finish();
  for (int64_t i = 0; i < kMany; ++i)
    ASSERT_EQ(sums.as<float>()[i], static_cast<float>(2 * i)) << i;
  // The first that is wrong is behind those that a block's threads look at first.
  const Tensor ids = make({1, 1000}, DType::Int32);
  for (const int64_t wrong : {700, 900, 999})
    ids.as<int32_t>()[wrong] = static_cast<int32_t>(wrong);
  expectSameRefusal(
      [&](Kernels& k) {
        k.embedding({.tokenIds = ids,
                     .tokens = make({5, 2}),
                     .positions = {},
                     .x = make({1, 1000, 2}),
                     .at = {}});
      },
      "embedding: id 700 is not in [0, 5)");
}

std::set<std::string> namesIn(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> names;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i)
    names.insert((*i)[1]);
  return names;
}

// A kernel that a file forgets to load would be loaded when it is first used, and could wait for
// ever for one that spins.
TEST(CudaKernelFiles, LoadAllTheirKernels) {
  if (!std::filesystem::exists(TUTTI_CUDA_KERNELS)) GTEST_SKIP() << "there are no sources here";
  size_t kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_CUDA_KERNELS)) {
    if (entry.path().extension() != ".cu") continue;
    const std::string launches = tests::contentsOf(entry.path());
    const std::string loads = launches.substr(launches.rfind("cudaError_t load"));
    const std::string device = tests::contentsOf(entry.path().parent_path() /
                                                 (entry.path().stem().string() + "_device.cuh"));
    for (const std::string& name : namesIn(device, R"(__global__[\s\S]*?(\w+)\((?!k[A-Z]))")) {
      ++kernels;
      std::smatch pair;
      const bool ofBoth = std::regex_search(
          launches, pair, std::regex("(k\\w+)\\{" + name + "<float>,\\s*" + name + "<double>"));
      const std::string loaded = ofBoth ? std::string(pair[1]) : name;
      EXPECT_TRUE(std::regex_search(loads, std::regex("\\b" + loaded + "\\b"))) << name;
    }
  }
  EXPECT_EQ(kernels, 39u);
}

}  // namespace
}  // namespace tutti::parallel
