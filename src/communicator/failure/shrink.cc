// Shrinking: votes.h says how survivors agree on who is dead.
//
// What was decided is never voted on again. When somebody dies while the new communicator is set
// up, it exists on all survivors as a failed one, whether they were still in set-up or had returned
// it, and it is that one which is shrunk next.

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/state.h"

namespace tutti {

Communicator Communicator::shrink() {
  if (impl_->who.inForkedChild()) throw communicator::Membership::usedAfterFork();
  impl_->host.requireOutsideReduction();
  const auto deadline =
      base::Deadline::after(std::chrono::milliseconds(impl_->settings.setupTimeoutMs));
  std::shared_ptr<Impl> last = impl_;
  while (true) {
    auto next = last->shrunk(deadline);
    try {
      next->connect(deadline);
      return Communicator(std::move(next));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::PeerLost) throw;
    }
    last = std::move(next);  // one more died
  }
}

std::shared_ptr<Communicator::Impl> Communicator::Impl::shrunk(base::Deadline deadline) {
  // This rank issues nothing more here. Others may still be in operations that it took part in;
  // those that wait for later ones learn it from the first view.
  failure.passOn();
  failure.fail(Error(ErrorCode::Aborted, who.self() + " shrinks the communicator"), false);
  awaitQuiet(deadline);
  const uint32_t vote = votes.count();
  const std::vector<int> survivors = votes.survivors(deadline, host.collectivesDone());
  return std::make_shared<Impl>(who.part(survivors, children.idOfShrink(vote, survivors)),
                                settings);
}

// An operation that a stream runs sees the failure at its next poll. After that this rank touches
// nobody's memory any more.
void Communicator::Impl::awaitQuiet(base::Deadline deadline) {
  base::Backoff backoff(false);
  while (host.isActive() || !gpu.isQuiet()) {
    if (deadline.passed())
      base::fail(ErrorCode::Timeout, who.self(), ": timed out while operation ", host.turn(),
                 " was still running here");
    backoff.idle();
  }
  oneSided.quiet();
}

}  // namespace tutti
