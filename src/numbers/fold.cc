#include "src/numbers/fold.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/check.h"
#include "src/numbers/integer_scale.h"
#include "src/numbers/kernels.h"
#include "src/numbers/variants.h"

namespace tutti::numbers {
namespace {

/// What is computed before it is handed out to targets; small enough to stay in L1 beside sources.
constexpr size_t kStageBytes = 1024;
/// A copy to several targets reads its source from memory once, in blocks that stay in L1.
constexpr size_t kCopyBytes = 8192;
/// Streaming stores to less than this cost more than they save.
constexpr size_t kLeastStreamBytes = 4096;
/// Targets larger than this, together, are streamed to without being asked: no cache keeps them.
constexpr size_t kAlwaysStreamBytes = size_t{64} << 20;

KernelOp kernelOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::Prod: return kMultiply;
    case ReduceOp::Min: return kMinimum;
    case ReduceOp::Max: return kMaximum;
    case ReduceOp::BitAnd: return kBitAnd;
    case ReduceOp::BitOr: return kBitOr;
    case ReduceOp::BitXor: return kBitXor;
    case ReduceOp::LogicalAnd: return kLogicalAnd;
    case ReduceOp::LogicalOr: return kLogicalOr;
    case ReduceOp::LogicalXor: return kLogicalXor;
    default: return kAdd;
  }
}

void validate(const FoldRequest& request) {
  TUTTI_REQUIRE(!request.sources.empty(), "fold has no sources");
  TUTTI_REQUIRE(request.sources.size() <= kMaxSources, "fold has ", request.sources.size(),
                " sources; the limit is ", kMaxSources);
  TUTTI_REQUIRE(!request.targets.empty(), "fold has no targets");
  TUTTI_REQUIRE(request.premultiply.empty() || request.premultiply.size() == request.sources.size(),
                "fold has ", request.sources.size(), " sources and ", request.premultiply.size(),
                " scalars");
  TUTTI_REQUIRE(request.divideBy >= 1, "fold divides by ", request.divideBy);
  TUTTI_REQUIRE(isDefined(request.op, request.type), toString(request.op), " is not defined for ",
                toString(request.type));
  const bool adds = kernelOp(request.op) == kAdd;
  TUTTI_REQUIRE(adds || (request.premultiply.empty() && request.divideBy == 1), "fold of ",
                toString(request.op), " has scalars or a divisor");
}

/// One call of fold(), with what is decided once.
class HostFold {
 public:
  HostFold(const FoldKernels& kernels, const FoldRequest& request)
      : kernels_(kernels),
        request_(request),
        elementBytes_(sizeOf(request.type)),
        bytes_(request.count * elementBytes_),
        scaled_(std::any_of(request.premultiply.begin(), request.premultiply.end(),
                            [](double scalar) { return scalar != 1.0; })),
        streaming_(streams()) {}

  void run() const {
    if (bytes_ == 0) return;
    if (request_.sources.size() == 1 && !scaled_ && request_.divideBy == 1)
      copy();
    else if (isInteger(request_.type) && (scaled_ || request_.divideBy != 1))
      inStages([this](size_t begin, size_t count, void* stage) { integers(begin, count, stage); });
    else if (streaming_ && !linesAgree())
      inStages([this](size_t begin, size_t count, void* stage) {
        callKernel(request_.sources, {&stage, 1}, begin, count);
      });
    else
      direct();
    if (streaming_) kernels_.fence();
  }

 private:
  /// A target that equals a source has its lines in the cache already: past it would be slower.
  bool streams() const {
    if (bytes_ < kLeastStreamBytes) return false;
    if (!request_.streaming && bytes_ * request_.targets.size() < kAlwaysStreamBytes) return false;
    return std::none_of(request_.targets.begin(), request_.targets.end(), [this](const void* t) {
      return std::find(request_.sources.begin(), request_.sources.end(), t) !=
             request_.sources.end();
    });
  }

  /// Whether all targets lie at the same distance from a line, so that one head aligns them all.
  bool linesAgree() const {
    const auto past = [](const void* t) { return reinterpret_cast<uintptr_t>(t) % kLineBytes; };
    const size_t first = past(request_.targets[0]);
    return first % elementBytes_ == 0 &&
           std::all_of(request_.targets.begin(), request_.targets.end(),
                       [&](const void* t) { return past(t) == first; });
  }

  KernelCall call(std::span<const void* const> sources, std::span<void* const> targets,
                  size_t begin, size_t count) const {
    const bool floating = !isInteger(request_.type);
    return {.sources = sources.data(),
            .sourceCount = sources.size(),
            .targets = targets.data(),
            .targetCount = targets.size(),
            .begin = begin,
            .count = count,
            .scalars = floating && scaled_ ? request_.premultiply.data() : nullptr,
            .divideBy = floating ? request_.divideBy : 1,
            .canonical = request_.order == FoldOrder::Canonical,
            .rounded = request_.order != FoldOrder::Listed,
            .streaming = false};
  }
  void callKernel(std::span<const void* const> sources, std::span<void* const> targets,
                  size_t begin, size_t count) const {
    kernel()(call(sources, targets, begin, count));
  }
  FoldKernel kernel() const {
    return kernels_.fold[static_cast<size_t>(request_.type)][kernelOp(request_.op)];
  }

  void direct() const {
    KernelCall whole = call(request_.sources, request_.targets, 0, request_.count);
    whole.streaming = streaming_;
    kernel()(whole);
  }

  /// Lets `compute(begin, count, stage)` fill a stage and copies it to all targets, and so on.
  template <class Compute>
  void inStages(Compute compute) const {
    alignas(kLineBytes) std::array<char, kStageBytes> stage;
    const size_t step = kStageBytes / elementBytes_;
    for (size_t begin = 0; begin < request_.count; begin += step) {
      const size_t count = std::min(step, request_.count - begin);
      compute(begin, count, stage.data());
      for (void* target : request_.targets)
        move(static_cast<char*>(target) + begin * elementBytes_, stage.data(),
             count * elementBytes_);
    }
  }

  /// Integers with scalars or a divisor: all in `stage`, whose elements hold what has been folded.
  void integers(size_t begin, size_t count, void* stage) const {
    if (!scaled_) {
      callKernel(request_.sources, {&stage, 1}, begin, count);
    } else {
      alignas(kLineBytes) std::array<char, kStageBytes> next;
      const std::array<const void*, 2> both{stage, next.data()};
      for (size_t s = 0; s < request_.sources.size(); ++s) {
        const void* source = static_cast<const char*>(request_.sources[s]) + begin * elementBytes_;
        scaleIntegers(request_.type, source, request_.premultiply[s], count,
                      s == 0 ? stage : next.data());
        if (s != 0) callKernel(both, {&stage, 1}, 0, count);
      }
    }
    if (request_.divideBy != 1) divideIntegers(request_.type, stage, request_.divideBy, count);
  }

  void copy() const {
    const char* source = static_cast<const char*>(request_.sources[0]);
    const size_t step = request_.targets.size() == 1 ? bytes_ : kCopyBytes;
    for (size_t at = 0; at < bytes_; at += step)
      for (void* target : request_.targets)
        if (target != source)
          move(static_cast<char*>(target) + at, source + at, std::min(step, bytes_ - at));
  }

  void move(void* target, const void* source, size_t bytes) const {
    if (streaming_)
      kernels_.streamCopy(target, source, bytes);
    else
      std::memcpy(target, source, bytes);
  }

  const FoldKernels& kernels_;
  const FoldRequest& request_;
  const size_t elementBytes_;
  const size_t bytes_;
  const bool scaled_;
  const bool streaming_;
};

}  // namespace

void foldWith(const FoldKernels& kernels, const FoldRequest& request) {
  validate(request);
  HostFold(kernels, request).run();
}

void fold(const FoldRequest& request) {
  static const FoldKernels& best = *variants().back().kernels;
  foldWith(best, request);
}

}  // namespace tutti::numbers
