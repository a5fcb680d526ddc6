// What a rank that has given up says of it.

#include "src/base/check.h"
#include "src/base/transfer_key.h"
#include "src/executor/kernel/launch.h"

namespace tutti::executor::kernel {
namespace {

bool isExchange(uint32_t callHash) { return (callHash & base::kExchangeBit) != 0; }
std::string transferOf(uint32_t callHash, uint32_t operation) {
  return base::describeTransfer(base::transferKey(callHash, operation));
}

/// `verb`: what it does with a transfer.
std::string sideOf(int rank, uint32_t callHash, uint32_t operation, uint32_t bytes,
                   const char* verb) {
  if (isExchange(callHash))
    return base::message("rank ", rank, " ", verb, " ", transferOf(callHash, operation));
  return base::message("rank ", rank, " is in operation ", operation, " of fingerprint ", callHash,
                       " with a message of ", bytes, " bytes");
}

std::string placeOf(int rank, const Report& r) {
  if (isExchange(r.callHash))
    return base::message("rank ", rank, ", a transfer of ", transferOf(r.callHash, r.operation),
                         ", lane ", r.lane, ", after ", r.bytesArrived, " bytes: ");
  return base::message("rank ", rank, ", operation ", r.operation, ", lane ", r.lane, ", step ",
                       r.step, " of round ", r.round, ", after ", r.bytesArrived, " bytes: ");
}

}  // namespace

Error errorOf(int rank, const Report& r, const std::optional<Error>& lost) {
  const std::string where = placeOf(rank, r);
  const std::string whom =
      r.peer < 0 ? "another lane of this rank" : base::message("rank ", r.peer);
  switch (r.reason) {
    case StopReason::Mismatch:
      return {ErrorCode::Mismatch,
              where +
                  "ranks disagree: " + sideOf(rank, r.callHash, r.operation, r.bytes, "receives") +
                  ", " + sideOf(r.peer, r.theirCallHash, r.theirOperation, r.theirBytes, "sends")};
    case StopReason::Deadline:
      return {ErrorCode::Timeout, where + "the deadline passed while waiting for " + whom};
    case StopReason::Lost: return {lost->code(), where + lost->what()};
    case StopReason::Poisoned: return {ErrorCode::PeerLost, where + whom + " has given up"};
    default: return {ErrorCode::Aborted, where + "aborted while waiting for " + whom};
  }
}

}  // namespace tutti::executor::kernel
