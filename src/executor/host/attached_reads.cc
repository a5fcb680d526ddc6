#include "src/executor/host/attached_reads.h"

#include <chrono>
#include <system_error>

#include "src/base/check.h"

namespace tutti::executor {
namespace {

// Within a second the death of a rank of this host is known to all (Peers::kDeathIsKnown).
constexpr std::chrono::seconds kNewsTakes{5};

}  // namespace

bool AttachedReads::read(int peer, uint64_t address, std::byte* to, uint64_t bytes) {
  const int error = endpoint_->readMemory(peer, address, to, bytes);
  if (error == 0) {
    waitsUntil_.reset();
    waitingFor_ = -1;
    return true;
  }
  waitingFor_ = peer;
  if (!waitsUntil_) waitsUntil_ = base::Deadline::after(kNewsTakes);
  if (!waitsUntil_->passed()) return false;
  base::fail(ErrorCode::System, "cannot read ", bytes, " bytes at address ", address, " of rank ",
             peer, ": ", std::generic_category().message(error),
             "; TUTTI_SHM_ATTACH=0 does without");
}

}  // namespace tutti::executor
