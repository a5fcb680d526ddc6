#include "src/communicator/failure/watchdog.h"

#include <fstream>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/failure/failure_state.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/messages.h"
#include "src/communicator/peers.h"

namespace tutti::communicator {
namespace {

// "stopped", "sleeping", ...: the kernel's view of a process of this host, or nothing.
std::string processState(int64_t pid) {
  std::ifstream status(base::message("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.substr(line.find_first_not_of(" \t", 6));
  return {};
}

}  // namespace

Watchdog::Watchdog(const Owners& owners)
    : owners_(owners), gpu_(owners), network_(owners.settings.reconnectMs) {
  owners.messages.handle<message::InquiryMessage>([this](int peer,
                                                         const message::InquiryMessage& inquiry,
                                                         const auto&) { answer(peer, inquiry); });
  owners.messages.handle<message::StatusMessage>(
      [this](int peer, const message::StatusMessage& status, const auto&) {
        compareWaits(peer, status);
      });
}

void Watchdog::listen() {
  owners_.who.control().listen(owners_.who.id(), this);
  listens_ = true;
}

void Watchdog::atExit(base::AtExit::Stop drain) { atExit_.emplace(std::move(drain)); }

void Watchdog::beforeTheEnd(std::function<void()> sayGoodbye) {
  beforeTheEnd_.emplace([goodbye = std::move(sayGoodbye)](const base::Deadline&) { goodbye(); },
                        base::AtExit::Phase::Last);
}

void Watchdog::forgetExit() {
  atExit_.reset();
  beforeTheEnd_.reset();
}

void Watchdog::stop() { owners_.who.control().ignore(owners_.who.id()); }

void Watchdog::onMessage(int from, bootstrap::ControlMessage message) {
  const int peer = owners_.who.rankOfWorld(from);
  if (peer < 0) return;
  try {
    owners_.messages.dispatch(peer, std::move(message));
  } catch (const std::exception& e) {
    owners_.failure.fail(
        Error(ErrorCode::Internal, base::message(owners_.who.name(peer),
                                                 " sent a malformed control message: ", e.what())),
        true);
  }
  owners_.failure.notify();
}

void Watchdog::onPeerLost(int worldRank, const std::string& how) {
  const int peer = owners_.who.rankOfWorld(worldRank);
  if (peer < 0 || !owners_.peers.lose(peer)) return;
  owners_.failure.notify();
  owners_.failure.fail(Error(ErrorCode::PeerLost,
                             base::message(owners_.who.name(peer), " was lost: ", how, "; ",
                                           owners_.who.self(), " noticed ", owners_.host.where())),
                       true);
}

void Watchdog::onPeerLeft(int worldRank) {
  onPeerLost(worldRank, "left the job without destroying the communicator");
}

// A call on GPUs that somebody waits in is not compared where calls were captured: then ranks do
// not count alike.
void Watchdog::answer(int peer, const message::InquiryMessage& inquiry) {
  const bool isOfHost = inquiry.by == message::Inquirer::Host;
  const Recorder& recorder = isOfHost ? owners_.host.recorder() : owners_.gpu.recorder();
  const auto mine = recorder.findCollective(inquiry.sequence);
  if (inquiry.by == message::Inquirer::GpuWaiting && owners_.gpu.wasCaptured()) return;
  if (mine && !(*mine->collective() == inquiry.facts))
    return owners_.failure.fail(
        Error(ErrorCode::Mismatch,
              base::message("ranks disagree about operation ", inquiry.sequence, ": ",
                            owners_.who.name(peer), " calls ", inquiry.facts.describe(), "; ",
                            owners_.who.self(), " calls ", mine->describe())),
        true);
  if (isOfHost) owners_.messages.send(peer, owners_.host.status());
}

// A rank in a collective and one in an exchange that wait for each other, and still do so an
// inquiry later without a byte in between, are not in the same call: no message would tell them.
void Watchdog::compareWaits(int peer, const message::StatusMessage& theirs) {
  using message::Activity;
  const int own = owners_.who.rank();
  const auto mine = owners_.host.current();
  const bool waits = mine && mine->phase == CallPhase::Running && mine->waitingFor == peer;
  const Peers::Answer now{theirs, {waits ? mine->number : 0, waits ? mine->bytesReceived : 0}};
  const Activity other = waits && mine->collective() ? Activity::Exchange : Activity::Collective;
  const std::optional<Peers::Answer> before = owners_.peers.noteAnswer(peer, now);
  if (!waits || theirs.activity != other || theirs.waitingFor != own || before != now) return;
  owners_.failure.fail(
      Error(ErrorCode::Mismatch,
            base::message("ranks disagree: ", owners_.who.self(), " is in ", mine->nameAndCall(),
                          ", and waits for ", owners_.who.name(peer), ", which ", theirs.describe(),
                          " and waits for rank ", own)),
      true);
}

void Watchdog::onTick() {
  gpu_.look();
  if (owners_.failure.hasFailed()) return;
  const auto entry = owners_.host.current();
  if (entry && entry->phase == CallPhase::Running) lookAt(*entry);
}

// A rank that left or shrinks will not take part in operations after its last; those cannot
// complete.
bool Watchdog::lookForLeavers(const Recorder::Entry& entry) {
  if (!owners_.peers.someoneStopped() || !entry.collective()) return false;
  const auto stopped = owners_.peers.stoppedBefore(entry.sequence);
  if (!stopped) return false;
  owners_.failure.fail(
      owners_.peers.absence(stopped->peer,
                            base::message(" after operation ", stopped->after, "; ",
                                          owners_.who.self(), " is in ", entry.nameAndCall())),
      true);
  return true;
}

void Watchdog::lookAt(const Recorder::Entry& entry) {
  if (lookForLeavers(entry)) return;
  const int64_t now = clock_.nowNs();
  const int64_t waited = now - entry.waitingSinceNs;
  if (operation_ != entry.number || peer_ != entry.waitingFor) {
    straggling_ &= operation_ == entry.number;
    operation_ = entry.number;
    peer_ = entry.waitingFor;
    lastInquiryNs_ = 0;
  }
  if (peer_ < 0 || waited < kInquireAfterNs) return;
  if (transports::Endpoint* const endpoint = owners_.links.endpoint()) {
    const auto cut = network_.look(*endpoint, operation_, {&peer_, 1}, now);
    if (cut) return owners_.failure.fail(owners_.links.cut(*cut, entry.nameAndCall()), true);
  }
  if (now - lastInquiryNs_ >= kInquireAgainNs) {
    lastInquiryNs_ = now;
    owners_.messages.send(peer_, message::InquiryMessage::about(entry, message::Inquirer::Host));
  }
  const int64_t limitMs = owners_.settings.stragglerMs;
  if (straggling_ || limitMs <= 0 || waited < limitMs * 1'000'000) return;
  straggling_ = true;
  reportStraggler(entry, waited);
}

void Watchdog::reportStraggler(const Recorder::Entry& entry, int64_t waitedNs) const {
  const auto status = owners_.peers.status(peer_);
  const std::vector<int>& hostOf = owners_.links.topology().hostOf;
  const bool isLocal = hostOf[peer_] == hostOf[owners_.who.rank()];
  const std::string process = isLocal ? processState(owners_.who.info(peer_).pid) : "";
  base::log(LogLevel::Warning, owners_.who.self(), ": ", entry.nameAndCall(), " has waited ",
            waitedNs / 1'000'000, " ms; straggler: ", owners_.who.name(peer_), ", which ",
            status ? status->describe() : "does not answer",
            process.empty() ? "" : "; its process is " + process);
}

}  // namespace tutti::communicator
