#pragma once

// What a Communicator is made of: its owners, each with private state, wired to each other. One
// thread issues its operations; they run one after the other, in the order of their numbers, on
// whichever thread drives them; the control plane's monitor thread listens, inquires after ranks
// that are waited for, and decides failures. Each owner's header says what it owns, on which
// threads it is called, and what protects its state.
//
// Owners refer to those above them; only a failure calls down, to abort the GPU and to print the
// recorders. The monitor calls the Watchdog, which is the last: the destructor stops it before any
// owner goes. Operations share the ownership of the whole. So nobody fails a communicator whose
// owners are being destroyed.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "src/base/clock.h"
#include "src/communicator/arguments.h"
#include "src/communicator/children.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/failure/votes.h"
#include "src/communicator/failure/watchdog.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/messages.h"
#include "src/communicator/one_sided/one_sided.h"
#include "src/communicator/owners.h"
#include "src/communicator/peers.h"
#include "src/communicator/settings.h"
#include "transports/connection.h"

namespace tutti::communicator {

/// What a rank says in a split; no communicator is made for it where the color is negative.
struct SplitVote {
  int64_t color, key;
};

}  // namespace tutti::communicator

namespace tutti {

struct Communicator::Impl final : std::enable_shared_from_this<Impl> {
  Impl(communicator::Membership membership, const communicator::Settings& chosen);
  ~Impl();

  /// Collective over the members, which have to run at the same time.
  void connect(base::Deadline deadline);
  /// Instead of connect(), where this rank's settings are invalid: throws `why` with this rank's
  /// name, and so does connect() of all others.
  [[noreturn]] void refuse(const Error& why);
  /// During connect(), from any thread: it throws Aborted, and so does that of all others.
  void stopSetup();
  /// Joins all ranks of one process in one call.
  static void connectLocal(const std::vector<std::shared_ptr<Impl>>& ranks,
                           std::vector<std::unique_ptr<transports::Endpoint>> endpoints);

  /// For operations, which keep the communicator by it.
  std::shared_ptr<const communicator::Owners> shared();
  communicator::Caller caller() const { return {who.rank(), who.size()}; }
  std::string recorded(size_t lines) const;  ///< the operations that are kept, at most so many

  // Parts of it, connected (communicator.cc).
  /// Those of this rank's color, or null.
  std::shared_ptr<Impl> splitBy(const std::vector<communicator::SplitVote>& said);
  std::shared_ptr<Impl> subset(std::span<const int> ranks, const communicator::Settings& its);
  /// With new ranks (grow.cc).
  std::shared_ptr<Impl> grown(const GrowArgs& args);

  // Shrinking (shrink.cc).
  /// The communicator of those that the survivors agree on, not connected.
  std::shared_ptr<Impl> shrunk(base::Deadline deadline);
  /// Until no operation runs on this rank any more. Throws Timeout.
  void awaitQuiet(base::Deadline deadline);

  // Leaving (state.cc).
  /// The others are told why it has failed, if it has, and how many collectives it has done.
  void sayGoodbye();
  /// Until what was sent has reached the others, or it has failed.
  void drain(const base::Deadline& deadline);

  const communicator::Membership who;
  communicator::Settings settings;  // constant once connected
  communicator::Children children;
  communicator::RankLinks links;
  communicator::Messages messages;
  communicator::FailureState failure;
  communicator::Peers peers;
  communicator::Votes votes;
  communicator::HostBackend host;
  communicator::GpuBackend gpu;
  communicator::OneSided oneSided;
  const communicator::Owners owners;
  communicator::Watchdog watchdog;
};

}  // namespace tutti
