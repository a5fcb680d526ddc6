#include "src/communicator/host/short_calls.h"

#include <utility>

namespace tutti::communicator {

KnownCall::KnownCall(uint64_t number, const executor::CallFacts& facts, Caller by,
                     ReadyChoice& choice, std::unique_ptr<executor::ShortProgram> program)
    : number_(number), facts_(facts), choice_(choice), program_(std::move(program)) {
  const plan::PlanSpec& spec = program_->plan().spec();
  const uint64_t block = facts.count * sizeOf(facts.type);
  const auto bytes = [&](plan::Buffer buffer) {
    return plan::isGiven(spec, buffer, by.rank) ? block * plan::blocksOf(spec, buffer) : 0;
  };
  inBytes_ = bytes(plan::Buffer::In);
  outBytes_ = bytes(plan::Buffer::Out);
  const bool manyIn = plan::givesBlocks(facts.collective);
  const bool manyOut = plan::getsBlocks(facts.collective);
  const uint64_t own = static_cast<uint64_t>(by.rank) * block;
  inPlaceIn_ = manyIn && !manyOut ? own : 0;
  inPlaceOut_ = manyOut && !manyIn ? own : 0;
}

bool KnownCall::fits(const ShortCall& call) const {
  if (call.inBytes < inBytes_ || call.outBytes < outBytes_) return false;
  if ((inBytes_ > 0 && !call.in) || (outBytes_ > 0 && !call.out)) return false;
  const bool overlap = inBytes_ > 0 && outBytes_ > 0 && call.in < call.out + outBytes_ &&
                       call.out < call.in + inBytes_;
  return !overlap || call.in + inPlaceIn_ == call.out + inPlaceOut_;
}

}  // namespace tutti::communicator
