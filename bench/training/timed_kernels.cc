#include "bench/training/timed_kernels.h"

#include <algorithm>

#include "commands.h"

namespace tutti::bench {

namespace {

const char* nameOf(const GemmArgs& args) {
  if (args.transposeA) return "gemm, weights' gradients";
  return args.transposeB ? "gemm, forward" : "gemm, inputs' gradients";
}

}  // namespace

void TimedKernels::resetTimes() {
  for (auto& [name, time] : times_) time.nanoseconds = 0;
}

template <class Count, class Body>
void TimedKernels::timed(const char* name, const Count& count, const Body& body) {
  for (Frame& frame : frames_) frame.passedOn |= frame.name == name;
  frames_.push_back({name});
  const double begin = now_ns();
  body();
  const double whole = now_ns() - begin;
  const Frame own = frames_.back();
  frames_.pop_back();
  if (!frames_.empty()) frames_.back().nested += whole;
  KernelTime& time = times_[own.name];
  time.nanoseconds += whole - own.nested;
  if (!counting_ || own.passedOn) return;
  counter_.reset();
  count(counter_);
  time.count += counter_.total();
}

// Each method is timed as the host's kernels have it; those that count are asked for the same.
#define TUTTI_TIMED(method, parameters, ...)                    \
  void TimedKernels::method parameters {                        \
    timed(                                                      \
        #method, [&](DryKernels& k) { k.method(__VA_ARGS__); }, \
        [&] { HostKernels::method(__VA_ARGS__); });             \
  }
TUTTI_TIMED(fillZero, (const Tensor& x), x)
TUTTI_TIMED(copy, (const Tensor& from, const Tensor& to), from, to)
TUTTI_TIMED(addBias, (const Tensor& bias, const Tensor& y), bias, y)
TUTTI_TIMED(biasGradient, (const Tensor& dy, const Tensor& db, double beta), dy, db, beta)
TUTTI_TIMED(add, (const Tensor& from, const Tensor& to), from, to)
TUTTI_TIMED(layerNorm, (const LayerNormArgs& args), args)
TUTTI_TIMED(layerNormBackward, (const LayerNormBackwardArgs& args), args)
TUTTI_TIMED(layerNormWeights, (const LayerNormWeightArgs& args), args)
TUTTI_TIMED(gelu, (const Tensor& x, const Tensor& y), x, y)
TUTTI_TIMED(geluBackward, (const Tensor& dy, const Tensor& x, const Tensor& dx), dy, x, dx)
TUTTI_TIMED(attention, (const AttentionArgs& args, Arena& scratch), args, scratch)
TUTTI_TIMED(attentionBackward, (const AttentionBackwardArgs& args, Arena& scratch), args, scratch)
TUTTI_TIMED(embedding, (const EmbeddingArgs& args), args)
TUTTI_TIMED(embeddingWeights, (const EmbeddingWeightArgs& args), args)
TUTTI_TIMED(adamW, (const AdamWArgs& args), args)
TUTTI_TIMED(addSquares, (std::span<const Tensor> all, ExactSum& sum), all, sum)
#undef TUTTI_TIMED

void TimedKernels::gemm(const GemmArgs& args) {
  timed(
      nameOf(args), [&](DryKernels& k) { k.gemm(args); }, [&] { HostKernels::gemm(args); });
}

double TimedKernels::crossEntropy(const CrossEntropyArgs& args) {
  double loss = 0;
  timed(
      "crossEntropy", [&](DryKernels& k) { k.crossEntropy(args); },
      [&] { loss = HostKernels::crossEntropy(args); });
  return loss;
}

}  // namespace tutti::bench
