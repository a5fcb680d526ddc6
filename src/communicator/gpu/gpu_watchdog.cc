#include "src/communicator/gpu/gpu_watchdog.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/communicator/failure/watchdog.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"

namespace tutti::communicator {
namespace {

// How long the news of what made a peer give up may take, and the two sides of a mismatch.
constexpr int64_t kGpuReasonNs = 1'000'000'000, kGpuDisputeNs = 2'000'000'000;
// How long what a rank has sent may take when it has left.
constexpr int64_t kGpuLeaverNs = 1'000'000'000;
// How many ranks one that waits asks together.
constexpr int kAskedAtATime = 8;

std::string describe(const executor::ExecutorFailure& found,
                     const std::optional<Recorder::Entry>& entry, const Owners& owners) {
  const Membership& who = owners.who;
  std::string call = base::message(who.self(), " on ", toString(owners.settings.device));
  if (entry)
    call += ": " + entry->describe();
  else if (found.operation > 0)
    call += ": a call, or a replay of one";
  else
    call += found.peer < 0 ? ", between calls" : ", between calls with " + who.name(found.peer);
  if (found.code() != ErrorCode::Timeout || found.peer < 0)
    return base::message(call, ": ", found.what());
  std::string text = base::message(call, " did not complete within ", owners.settings.timeoutMs,
                                   " ms; it waits for ", who.name(found.peer));
  if (found.bytesArrived) text += base::message(" with ", *found.bytesArrived, " bytes received");
  return text;
}

}  // namespace

// What is enqueued ends only while it is watched, so that goes on when the communicator has failed.
void GpuWatchdog::look() {
  std::optional<executor::ExecutorFailure> found;
  try {
    found = owners_.gpu.watch();
  } catch (const Error& error) {
    return owners_.failure.fail(error, true);
  }
  if (owners_.failure.hasFailed()) return;
  if (found) return lookAtFailure(*found);
  lookForLeavers();
  lookAtWaits();
}

// A peer that has given up tells why by the control plane, and ranks that disagree compare their
// calls there. What the GPU knows is the answer where they do not.
void GpuWatchdog::lookAtFailure(const executor::ExecutorFailure& found) {
  const int64_t now = clock_.nowNs();
  const auto entry = owners_.gpu.callOf(found);
  const bool isMismatch = found.code() == ErrorCode::Mismatch;
  const bool isAsked = isMismatch && entry && entry->collective();
  if (failedNs_ == 0) {
    failedNs_ = now;
    // Also about those before: what a rank sent in one of them may have been left.
    for (const Recorder::Entry& known : owners_.gpu.recorder().recent())
      if (isAsked && known.collective() && known.number <= entry->number)
        owners_.messages.send(found.peer,
                              message::InquiryMessage::about(known, message::Inquirer::Gpu));
  }
  const bool isAnswer = isMismatch || found.code() == ErrorCode::Timeout;
  const int64_t grace = isAsked ? kGpuDisputeNs : isAnswer ? 0 : kGpuReasonNs;
  if (now - failedNs_ < grace) return;
  owners_.failure.fail(Error(found.code(), describe(found, entry, owners_)), true);
}

// A rank that has left takes part in nothing any more, and what it has sent before comes within a
// moment.
void GpuWatchdog::lookForLeavers() {
  if (!owners_.peers.someoneStopped()) return;
  const int leaver = owners_.gpu.missedLeaver(owners_.peers);
  const int64_t now = clock_.nowNs();
  if (leaver != leaver_) leaverSinceNs_ = now;
  leaver_ = leaver;
  if (leaver < 0 || now - leaverSinceNs_ < kGpuLeaverNs) return;
  const Membership& who = owners_.who;
  owners_.failure.fail(Error(ErrorCode::PeerLost, base::message(who.name(leaver), " left; ",
                                                                who.self(), " still needs it on ",
                                                                toString(owners_.settings.device))),
                       true);
}

// A kernel does not say for whom it waits: of a collective that may be anybody. Sends and receives
// may have nothing to do with a host that is gone.
void GpuWatchdog::lookAtWaits() {
  const std::optional<uint64_t> ended = owners_.gpu.underWay();
  if (!ended) return;
  inquire(*ended);
  std::vector<int> waitedFor;
  for (const int peer : owners_.links.probed())
    if (!owners_.peers.hasLeft(peer)) waitedFor.push_back(peer);
  if (waitedFor.empty()) return;
  const auto cut = network_.look(*owners_.links.endpoint(), *ended, waitedFor, clock_.nowNs());
  if (!cut) return;
  const std::string during = "a collective on " + toString(owners_.settings.device);
  owners_.failure.fail(owners_.links.cut(*cut, during), true);
}

// Of ranks in different calls none may get a message of the other's: they take other wires, or have
// other roots. So whoever waits asks the others what they call, some at a time. Where a rank has
// captured calls, which it replays, ranks do not count alike.
void GpuWatchdog::inquire(uint64_t ended) {
  const int64_t now = clock_.nowNs();
  if (waited_ != ended) waitedSinceNs_ = now;
  waited_ = ended;
  if (now - waitedSinceNs_ < kInquireAfterNs || now - inquiryNs_ < kInquireAgainNs) return;
  const auto entry = owners_.gpu.recorder().find(ended + 1);
  if (!entry || !entry->collective() || owners_.gpu.wasCaptured()) return;
  inquiryNs_ = now;
  const int size = owners_.who.size();
  for (int i = 0; i < std::min(kAskedAtATime, size - 1); ++i) {
    asked_ = asked_ % (size - 1) + 1;
    owners_.messages.send((owners_.who.rank() + asked_) % size,
                          message::InquiryMessage::about(*entry, message::Inquirer::GpuWaiting));
  }
}

}  // namespace tutti::communicator
