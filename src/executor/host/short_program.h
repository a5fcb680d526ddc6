#pragma once

// A short collective on one host: a program of one round. All that is the same in each repeat of
// the call is looked up once: rings, offsets, sizes, the fingerprint. It builds nothing when it
// runs, and waits a moment at most. Where a peer is not there by then, HostOperation goes on with
// the steps at which it stopped: messages are the same.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/executor/call.h"
#include "src/executor/host/host_operation.h"
#include "src/executor/host/patience.h"
#include "src/numbers/fold.h"
#include "transports/connection.h"

namespace tutti::executor {

class ShortProgram {
 public:
  /// Null where calls of these facts have none: they are large or long, scale their inputs, reduce
  /// by a function of the caller's, have uneven blocks, or go to ranks that stores do not reach.
  static std::unique_ptr<ShortProgram> make(const HostPlan& plan, const CallFacts& facts,
                                            const HostRank& at);

  /// Ahead of run(): nothing is done yet.
  void restart() {
    for (ShortLane& lane : lanes_) lane.done = 0;
  }
  /// Runs what is not done. False when its patience has ended, or a message is another than it
  /// expects: stepsDone() then says what is done.
  bool run(const std::byte* in, std::byte* out, uint32_t operation, Patience& patience);
  /// Of a lane of the plan's program, since the last restart.
  uint32_t stepsDone(size_t lane) const { return lanes_[lane].done; }
  std::span<const std::byte> scratch() const { return scratch_; }
  const HostPlan& plan() const { return plan_; }
  uint64_t bytesReceived() const { return bytesReceived_; }  ///< by a whole run

 private:
  /// Data of a step: in a buffer of the rank, or in a message.
  struct Place {
    plan::Port::Kind kind;
    plan::Buffer buffer;
    uint64_t offset;  ///< in the buffer
    size_t message;   ///< of the step's receives, or its sends
  };
  struct Receive {
    transports::ReceiveRing* ring;
    uint32_t bytes;
  };
  struct ShortStep {
    std::vector<Receive> receives;
    std::vector<transports::SendRing*> sends;
    std::vector<uint32_t> sendBytes;
    std::vector<Place> sources, targets;
    uint64_t bytes = 0;  ///< of each place
    std::vector<plan::Dependency> after;
    numbers::FoldOrder order = numbers::FoldOrder::Listed;
    int divideBy = 1;
  };
  struct ShortLane {
    std::vector<ShortStep> steps;
    uint32_t done = 0;
  };

  ShortProgram(const HostPlan& plan, const CallFacts& facts) : plan_(plan), facts_(facts) {}
  bool add(const plan::Lane& lane, const plan::PlanShape& shape, const HostRank& at);
  bool addPort(const plan::Port& port, bool isTarget, int channel, const plan::PlanShape& shape,
               const HostRank& at, ShortStep& made);
  bool isReady(const ShortStep& step, uint32_t operation) const;
  void execute(const ShortStep& step, const std::byte* in, std::byte* out, uint32_t operation);
  void fold(const ShortStep& step, const std::byte* in, std::byte* out);

  const HostPlan& plan_;
  const CallFacts facts_;
  const uint32_t callHash_ = facts_.fingerprint();
  std::vector<ShortLane> lanes_;
  std::vector<std::byte> scratch_;
  uint64_t bytesReceived_ = 0;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

}  // namespace tutti::executor
