// State that lies in page-locked memory while the rest is on emulated GPUs: where it is, that a
// training has the bits of one that keeps all on the GPUs, in parts of any size, and what runs
// behind what, and beside what.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "parallel/store/parameter_store.h"
#include "tests/device/cuda_test.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

using tests::CudaGate;
using tests::expectError;
using tests::gpu;
using tests::outcomeOf;

constexpr Offload kAll{
    .optimizer = Place::Host, .gradients = Place::Host, .parameters = Place::Host};

class OffloadOnGpus : public tests::CudaTest {};

cudaMemoryType kindOf(const Tensor& tensor) {
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, tensor.data), cudaSuccess);
  return attributes.type;
}

cudaMemoryType kindAt(Place place) {
  return place == Place::Device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
}

/// Elements of a tensor as they are stored.
std::vector<char> bitsOf(const DeviceMesh& mesh, const Tensor& tensor) {
  std::vector<char> bits(tensor.bytes());
  mesh.download(tensor, bits.data());
  return bits;
}

struct Case {
  ShardPolicy policy;
  StoreTypes types = {};
  int rounds = 1;
  /// All of a step is enqueued before any of it runs.
  bool gated = false;
};

/// What a rank has at the end, in an order of its own: masters, moments, gradients, weights.
using Bits = std::vector<std::vector<char>>;

/// Three parameters in two units, and gradients that differ by rank, element, round and step.
class Rank {
 public:
  Rank(DeviceMesh& mesh, const Case& of)
      : mesh_(mesh),
        case_(of),
        kernels_(makeCudaKernels(mesh.stream())),
        store_(mesh, *kernels_, of.policy, of.types),
        weights_("gathered", mesh.backing()) {
    for (Parameter& p : parameters_) store_.add(p);
    store_.initialize(5);
  }

  Bits train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const ArenaScope scope(weights_);
      fillValues(step);
      std::optional<CudaGate> gate;  // not in the first step, which takes memory
      if (case_.gated && step > 0) gate.emplace(mesh_.stream());
      backward();
      if (!case_.gated) store_.clip(0.5);
      store_.step(*adamW_, 0.125);
      gather();
      if (gate) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        gate->open();
      }
      mesh_.finish();
    }
    checkPlaces();
    Bits bits;
    for (const Parameter& p : parameters_) {
      bits.push_back(bitsOf(mesh_, store_.master(p)));
      for (const Tensor& moment : store_.state(p, *adamW_)) bits.push_back(bitsOf(mesh_, moment));
      bits.push_back(bitsOf(mesh_, store_.finishedGradient(p)));
    }
    for (const Tensor& weight : gathered_) bits.push_back(bitsOf(mesh_, weight));
    return bits;
  }

 private:
  void fillValues(int step) {
    for (int round = 0; round < case_.rounds; ++round)
      for (size_t i = 0; i < parameters_.size(); ++i) {
        Memory& values = values_[static_cast<size_t>(round)][i];
        const int64_t count = parameters_[i].global.count();
        if (!values) values = allocatePinned(static_cast<size_t>(count) * sizeof(float));
        for (int64_t k = 0; k < count; ++k)
          values.as<float>()[k] =
              0.01f * static_cast<float>((k * 7 + static_cast<int>(i) + round + step) % 31) -
              0.1f * static_cast<float>(mesh_.rank());
      }
  }

  void backward() {
    store_.beginStep(1, case_.rounds);
    for (int round = 0; round < case_.rounds; ++round)
      for (size_t i = parameters_.size(); i-- > 0;) {
        const Parameter& p = parameters_[i];
        const Tensor to = store_.gradient(p, round).buffer;
        const Memory& values = values_[static_cast<size_t>(round)][i];
        copy({to.data, values.data(), to.bytes()}, mesh_.stream());
        if (i < 2) store_.weightsDone(p.unit, round);  // the first two end their units
      }
  }

  /// As the next forward does.
  void gather() {
    gathered_.clear();
    for (const Parameter& p : parameters_) {
      store_.acquire(p.unit, Phase::Forward);
      const Tensor weight = store_.weight(p);
      gathered_.push_back(weights_.allocate(weight.type, weight.shape));
      copy({gathered_.back().data, weight.data, weight.bytes()}, mesh_.stream());
      store_.release(p.unit, Phase::Forward);
    }
  }

  void checkPlaces() {
    const Offload& offload = case_.policy.offload;
    const bool state = case_.types.weights != case_.types.master;
    for (const Parameter& p : parameters_) {
      EXPECT_EQ(kindOf(store_.master(p)),
                kindAt(std::max(offload.parameters, state ? offload.optimizer : Place::Device)));
      EXPECT_EQ(kindOf(store_.finishedGradient(p)), kindAt(offload.gradients));
      for (const Tensor& moment : store_.state(p, *adamW_))
        EXPECT_EQ(kindOf(moment), kindAt(offload.optimizer));
    }
    for (const Tensor& weight : gathered_) EXPECT_EQ(kindOf(weight), cudaMemoryTypeDevice);
  }

  DeviceMesh& mesh_;
  const Case case_;
  std::array<std::array<Memory, 3>, 2> values_;  // by round and parameter, page-locked
  std::unique_ptr<Kernels> kernels_;
  std::array<Parameter, 3> parameters_{
      Parameter{.name = "first", .global = {30, 70}, .init = {Init::Normal, 1}, .unit = 0},
      Parameter{.name = "bias", .global = {18}, .init = {Init::One}, .unit = 1},
      Parameter{.name = "second", .global = {64, 5}, .init = {Init::Normal, 1}, .unit = 1}};
  ParameterStore store_;
  Arena weights_;
  std::vector<Tensor> gathered_;
  std::unique_ptr<Optimizer> adamW_ = makeAdamW({});
};

std::vector<Bits> trained(const Case& of) {
  return onRanks(MeshShape::parse("fsdp=2"), true,
                 [&](DeviceMesh& mesh) { return Rank(mesh, of).train(3); }, {gpu(0), gpu(1)});
}

ShardPolicy policyOf(int stage, const Offload& offload = {}) {
  ShardPolicy policy = ShardPolicy::zero(stage);
  policy.deterministic = true;
  policy.offload = offload;
  return policy;
}

/// What of `all` a policy of that stage can put elsewhere, in parts of so many bytes.
Offload offloadOf(int stage, size_t partBytes) {
  Offload offload = kAll;
  if (stage < 2) offload.gradients = Place::Device;
  if (stage < 3) offload.parameters = Place::Device;
  offload.partBytes = partBytes;
  return offload;
}

TEST_F(OffloadOnGpus, ATrainingHasTheSameBits) {
  for (const StoreTypes& types : {StoreTypes(DType::Float32), StoreTypes(DType::BFloat16)})
    for (const int rounds : {1, 2})
      for (const int stage : {1, 2, 3}) {
        const auto expected = trained({policyOf(stage), types, rounds});
        // In parts of 64 elements, and of all at once.
        for (const size_t partBytes : {size_t{256}, Offload{}.partBytes}) {
          if (partBytes > 256 && stage < 3) continue;
          EXPECT_EQ(trained({policyOf(stage, offloadOf(stage, partBytes)), types, rounds}),
                    expected)
              << toString(types.weights) << ", " << rounds << " rounds, stage " << stage << ", "
              << partBytes;
        }
      }
}

// Each by itself.
TEST_F(OffloadOnGpus, AnyPartOfTheStateMayBeElsewhere) {
  const auto expected = trained({policyOf(3)});
  for (const Offload& offload :
       {Offload{.optimizer = Place::Host}, Offload{.gradients = Place::Host},
        Offload{.parameters = Place::Host}})
    EXPECT_EQ(trained({policyOf(3, offload)}), expected);
}

// Nothing has run when the last of a step is enqueued: what does not wait for what it reads finds
// the values of the step before.
TEST_F(OffloadOnGpus, ItIsBehindWhatIsComputed) {
  for (const StoreTypes& types : {StoreTypes(DType::Float32), StoreTypes(DType::BFloat16)})
    for (const int rounds : {1, 2}) {
      const auto expected = trained({policyOf(3), types, rounds, true});
      EXPECT_EQ(trained({policyOf(3, offloadOf(3, 256)), types, rounds, true}), expected)
          << toString(types.weights) << ", " << rounds << " rounds";
    }
}

/// Makes elements those of a tensor of the GPU, from its first one on, at the speed of a copy.
class Assigning final : public Optimizer {
 public:
  Assigning(StreamRef stream, const Tensor& values) : stream_(stream), values_(values) {}
  std::span<const std::string> stateNames() const override { return kNames; }
  void beginStep(int64_t, double) override {}
  void update(std::span<const UpdateArgs> all, double, Kernels&) override {
    for (const UpdateArgs& each : all) {
      const Tensor values = values_.rows(done_, each.weight.count());
      copy({each.weight.data, values.data, values.bytes()}, stream_);
      for (const Tensor& to : each.state) copy({to.data, values.data, values.bytes()}, stream_);
      done_ += values.count();
    }
  }

 private:
  static inline const std::string kNames[] = {"last"};
  const StreamRef stream_;
  const Tensor values_;
  int64_t done_ = 0;
};

// The last element goes out after 32 MiB of others, and is read at once.
TEST_F(OffloadOnGpus, WhatComesNextIsBehindWhatGoesOut) {
  DeviceMesh mesh(gpu(0));
  const auto kernels = makeCudaKernels(mesh.stream());
  Arena away("away", mesh.backingOfHost()), here("here", mesh.backing());
  const Shape shape{int64_t{1} << 22};
  const auto filled = [&](Arena& arena, float value) {
    const Tensor tensor = arena.allocate(DType::Float32, shape);
    mesh.upload(std::vector<float>(static_cast<size_t>(shape.count()), value).data(), tensor);
    return tensor;
  };
  const Tensor weight = filled(away, 0), gradient = filled(here, 0), ones = filled(here, 1);
  std::array<Tensor, 1> state{filled(away, 0)};
  const Tensor last = here.allocate(DType::Float32, {1});
  Assigning optimizer(mesh.stream(), ones);
  OffloadedUpdates updates(mesh, {.weight = true, .state = true}, weight.bytes());
  updates.begin();
  updates.update({.weight = weight, .gradient = gradient, .state = state}, 1, optimizer, *kernels);
  updates.end();
  copy({last.data, state[0].as<float>() + shape.count() - 1, sizeof(float)}, mesh.stream());
  float seen = 0;
  mesh.download(last, &seen);
  EXPECT_EQ(seen, 1);
}

// Since CUDA 13 edges have data, which none here has.
cudaError_t getDependencies(cudaGraphNode_t node, cudaGraphNode_t* to, size_t* count) {
#if CUDART_VERSION >= 13000
  return cudaGraphNodeGetDependencies(node, to, nullptr, count);
#else
  return cudaGraphNodeGetDependencies(node, to, count);
#endif
}

/// Of a graph.
class Copies {
 public:
  explicit Copies(cudaGraph_t graph) {
    const auto nodes = listed(
        [&](cudaGraphNode_t* to, size_t* count) { return cudaGraphGetNodes(graph, to, count); });
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
      if (type == cudaGraphNodeTypeMemcpy) copies_.push_back(node);
    }
  }
  /// The only one from there, and to there.
  cudaGraphNode_t from(const Tensor& x) const { return only(x, &cudaMemcpy3DParms::srcPtr); }
  cudaGraphNode_t to(const Tensor& x) const { return only(x, &cudaMemcpy3DParms::dstPtr); }
  /// Whether it waits for the other one.
  static bool isBehind(cudaGraphNode_t later, cudaGraphNode_t earlier) {
    const auto before = listed(
        [&](cudaGraphNode_t* to, size_t* count) { return getDependencies(later, to, count); });
    return std::any_of(before.begin(), before.end(), [&](cudaGraphNode_t node) {
      return node == earlier || isBehind(node, earlier);
    });
  }

 private:
  template <class List>
  static std::vector<cudaGraphNode_t> listed(const List& list) {
    size_t count = 0;
    EXPECT_EQ(list(nullptr, &count), cudaSuccess);
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) {
      EXPECT_EQ(list(nodes.data(), &count), cudaSuccess);
    }
    return nodes;
  }
  cudaGraphNode_t only(const Tensor& x, cudaPitchedPtr cudaMemcpy3DParms::*side) const {
    std::vector<cudaGraphNode_t> found;
    for (cudaGraphNode_t copy : copies_) {
      cudaMemcpy3DParms params{};
      EXPECT_EQ(cudaGraphMemcpyNodeGetParams(copy, &params), cudaSuccess);
      if ((params.*side).ptr == x.data) found.push_back(copy);
    }
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? nullptr : found[0];
  }

  std::vector<cudaGraphNode_t> copies_;
};

// What is captured says what may run beside what, without a clock: a part comes in beside the
// update of the one before, whose copy out is beside that of the next; only memory is waited for.
TEST_F(OffloadOnGpus, CopiesRunBesideUpdates) {
  constexpr int64_t kParts = 4, kOfPart = 64;
  DeviceMesh mesh(gpu(0));
  const auto kernels = makeCudaKernels(mesh.stream());
  Arena away("away", mesh.backingOfHost()), here("here", mesh.backing());
  const Shape shape{kParts * kOfPart};
  const Tensor weight = away.allocate(DType::Float32, shape),
               gradient = here.allocate(DType::Float32, shape),
               values = here.allocate(DType::Float32, shape);
  Assigning optimizer(mesh.stream(), values);
  OffloadedUpdates updates(mesh, {.weight = true}, kOfPart * sizeof(float));
  cudaStream_t const stream = mesh.stream().cuda();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  updates.begin();
  updates.update({.weight = weight, .gradient = gradient}, 1, optimizer, *kernels);
  updates.end();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  const Copies copies(graph);
  struct Part {
    cudaGraphNode_t in, update, out;
  };
  std::vector<Part> parts;
  for (int64_t first = 0; first < shape.count(); first += kOfPart) {
    const Tensor rows = weight.rows(first, kOfPart);
    parts.push_back({copies.from(rows), copies.from(values.rows(first, kOfPart)), copies.to(rows)});
  }
  const auto isBehind = Copies::isBehind;
  for (size_t i = 0; i < parts.size() && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const Part& part = parts[i];
    EXPECT_TRUE(isBehind(part.update, part.in));
    EXPECT_TRUE(isBehind(part.out, part.update));
    if (i < 1) continue;
    EXPECT_FALSE(isBehind(part.in, parts[i - 1].update));
    EXPECT_FALSE(isBehind(part.update, parts[i - 1].out));
    if (i < 2) continue;
    EXPECT_TRUE(isBehind(part.in, parts[i - 2].out));
  }
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(OffloadOnGpus, FilesAreRefused) {
  DeviceMesh mesh(gpu(1));
  const auto kernels = makeCudaKernels(mesh.stream());
  const ShardPolicy policy = policyOf(1, {.optimizer = Place::File, .folder = "/tmp"});
  expectError(outcomeOf([&] { ParameterStore(mesh, *kernels, policy, DType::Float32); }),
              ErrorCode::Unsupported,
              "the optimizer arena is memory of cuda:1, and cannot be files in /tmp");
}

}  // namespace
}  // namespace tutti::parallel
