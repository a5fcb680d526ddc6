#include "src/executor/host/streaming_tuner.h"

#include <bit>
#include <cstddef>

namespace tutti::executor {
namespace {

constexpr uint32_t kFirstSamples = 2;
constexpr uint32_t kTryOtherEvery = 128;
constexpr double kWeight = 0.25;  // of the newest time in the average
constexpr double kJump = 1.6;     // ratio that makes the other way worth a try

}  // namespace

bool StreamingTuner::choose(uint64_t bytes, plan::Protocol protocol) {
  bucket_ = nullptr;
  if (bytes < kLeastBytes) return false;
  Bucket& b = buckets_[static_cast<size_t>(std::bit_width(bytes) - 1) * kProtocols +
                       static_cast<size_t>(protocol)];
  bucket_ = &b;
  ++b.operations;
  const int better = b.arms[1].nanoseconds < b.arms[0].nanoseconds ? 1 : 0;
  if (b.arms[0].samples < kFirstSamples)
    arm_ = 0;
  else if (b.arms[1].samples < kFirstSamples)
    arm_ = 1;
  else if (b.doubtful || b.operations % kTryOtherEvery == 0)
    arm_ = 1 - better;
  else
    arm_ = better;
  b.doubtful = false;
  return arm_ == 1;
}

void StreamingTuner::report(uint64_t nanoseconds) {
  if (!bucket_ || nanoseconds == 0) return;
  Arm& arm = bucket_->arms[arm_];
  const double now = static_cast<double>(nanoseconds);
  const bool known = arm.samples >= kFirstSamples;
  bucket_->doubtful = known && (now > kJump * arm.nanoseconds);
  // The first time pays for page faults and cold caches, so it does not count; a fall is believed
  // at once.
  if (arm.samples++ < kFirstSamples || now < arm.nanoseconds / kJump)
    arm.nanoseconds = now;
  else
    arm.nanoseconds += kWeight * (now - arm.nanoseconds);
}

}  // namespace tutti::executor
