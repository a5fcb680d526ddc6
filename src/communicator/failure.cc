// What happens when something goes wrong, and how ranks find out: deaths and departures from the
// control plane, inquiries after ranks that are waited for, disagreements, deadlines.

#include <cctype>
#include <fstream>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::CallFacts;
using communicator::kInquireAfterNs;
using communicator::kInquireAgainNs;
using communicator::Phase;
using communicator::Recorder;

namespace {

// Operations that a failure prints; describe() has all that are kept.
constexpr size_t kRecordedLines = 8;
// Of a failure's text that is told to others.
constexpr size_t kMaxToldBytes = 4096;

// "stopped", "sleeping", ...: the kernel's view of a process of this host, or nothing.
std::string processState(int64_t pid) {
  std::ifstream status(base::message("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.substr(line.find_first_not_of(" \t", 6));
  return {};
}

// A peer's words as part of a line of ours: what() would end at a zero byte.
std::string oneLine(std::string text) {
  for (char& c : text)
    if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
  return text;
}

std::string textOf(const Recorder::Entry& entry) {
  return base::message(entry.name(), ", ", entry.describe());
}

}  // namespace

std::string Communicator::Impl::recorded(size_t lines) const {
  std::string text = recorder.describe(lines);
  if (const std::string onGpu = gpuRecorder.describe(lines); !onGpu.empty())
    text += "on " + toString(settings.device) + ":\n" + onGpu;
  return text;
}

void Communicator::Impl::send(int peer, Message type, base::Bytes payload,
                              std::vector<base::FileDescriptor> descriptors) {
  bootstrap::ControlMessage message;
  message.channel = who.id();
  message.type = static_cast<uint32_t>(type);
  message.payload = std::move(payload);
  message.descriptors = std::move(descriptors);
  who.control().send(who.inWorld(peer), std::move(message));
}

void Communicator::Impl::fail(const Error& error, bool tellOthers) {
  {
    std::lock_guard lock(mutex);
    if (failure) return;
    failure = error;
    failedAtNs = clock.nowNs();
    failed.store(true, std::memory_order_seq_cst);
    if (gpu) gpu->abort();
  }
  changed.notify_all();
  if (tellOthers) tellFailure(error);
  if (error.code() != ErrorCode::Aborted)
    base::log(LogLevel::Error, who.self(), ": ", error.what(), "; recent operations:\n",
              recorded(kRecordedLines));
}

void Communicator::Impl::tellFailure(const Error& error) {
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank())
      send(peer, Message::Failure,
           base::ByteWriter()
               .put(error.code())
               .put(std::string(error.what()).substr(0, kMaxToldBytes))
               .take());
}

bool Communicator::Impl::passOnFailure() {
  const auto first = [&] {
    std::lock_guard lock(mutex);
    return failure;
  }();
  if (!first || first->code() == ErrorCode::Aborted) return false;
  tellFailure(*first);
  return true;
}

void Communicator::Impl::throwIfFailed() const {
  if (failed.load(std::memory_order_acquire)) throwFailure();
}

void Communicator::Impl::throwFailure() const {
  std::lock_guard lock(mutex);
  if (failure) throw Error(*failure);
  base::fail(ErrorCode::Aborted, who.self(),
             " dropped an operation");  // without memory to say more
}

void Communicator::Impl::requireOutsideReduction() const {
  if (operation.combinesHere())
    base::fail(
        ErrorCode::InvalidArgument, who.self(),
        ": a reduction of the caller's own calls the communicator whose operation it is part "
        "of, and would wait for itself");
}

void Communicator::Impl::requireUsable() const {
  if (who.inForkedChild()) throw Membership::usedAfterFork();
  requireOutsideReduction();
  throwIfFailed();
}

// A rank that left or shrinks will not take part in operations after its last; those cannot
// complete.
std::optional<Error> Communicator::Impl::stoppedBefore(uint64_t sequence) const {
  std::lock_guard lock(mutex);
  for (int peer = 0; peer < size; ++peer) {
    const Peer& p = peers[peer];
    if (!p.stoppedAfter || *p.stoppedAfter >= sequence) continue;
    const auto entry = recorder.findCollective(sequence);
    return Error(p.left ? ErrorCode::PeerLost : ErrorCode::Aborted,
                 base::message(who.name(peer), p.left ? " left" : " shrinks the communicator",
                               " after operation ", *p.stoppedAfter, "; ", who.self(), " is in ",
                               entry ? textOf(*entry) : base::message("operation ", sequence)));
  }
  return std::nullopt;
}

int Communicator::Impl::stoppedAmong(const std::function<bool(int)>& ranks) const {
  std::lock_guard lock(mutex);
  for (int peer = 0; peer < size; ++peer)
    if (peers[peer].stoppedAfter && ranks(peer)) return peer;
  return -1;
}

void Communicator::Impl::failByLeaver(int peer, const Recorder::Entry& entry) {
  bool left;
  {
    std::lock_guard lock(mutex);
    left = peers[peer].left;
  }
  fail(Error(left ? ErrorCode::PeerLost : ErrorCode::Aborted,
             base::message(who.name(peer), left ? " left" : " shrinks the communicator", "; ",
                           who.self(), " still needs it in ", textOf(entry))),
       true);
}

// Of a collective all ranks know the number, and can compare what they call.
void Communicator::Impl::inquire(int peer, uint64_t number) {
  if (const auto entry = recorder.find(number)) inquire(peer, *entry, Inquirer::Host);
}

void Communicator::Impl::inquire(int peer, const Recorder::Entry& entry, Inquirer by) {
  base::ByteWriter out;
  const CallFacts* facts = entry.collective();
  out.put(by).put(facts ? entry.sequence : uint64_t{0});
  (facts ? *facts : CallFacts()).write(out);
  send(peer, Message::Inquiry, out.take());
}

void Communicator::Impl::timeoutOperation(uint64_t number) {
  const auto entry = recorder.find(number);
  const int peer = entry ? entry->waitingFor : -1;
  std::string text = base::message(who.self(), ": ", entry ? textOf(*entry) : "an operation",
                                   " did not complete within ", settings.timeoutMs, " ms");
  if (peer >= 0) {
    text += base::message("; it waits for ", who.name(peer), " with ", entry->bytesReceived,
                          " bytes received");
    std::lock_guard lock(mutex);
    if (peers[peer].answers) text += base::message(", which ", peers[peer].status.describe());
  }
  fail(Error(ErrorCode::Timeout, text), true);
}

// ---- The monitor's thread from here on.

void Communicator::Impl::onPeerLost(int worldRank, const std::string& how) {
  const int peer = who.rankOfWorld(worldRank);
  if (peer < 0) return;
  {
    std::lock_guard lock(mutex);
    if (peers[peer].left || peers[peer].lost) return;
    peers[peer].lost = true;
  }
  changed.notify_all();
  const uint64_t current = turn.load(std::memory_order_acquire);
  const uint64_t last = issued.load(std::memory_order_acquire);
  const auto entry = recorder.find(current);
  const std::string where =
      current > last
          ? base::message("after operation ", collectivesDone.load(std::memory_order_acquire))
      : entry ? "during " + textOf(*entry)
              : "during an operation";
  fail(Error(ErrorCode::PeerLost, base::message(who.name(peer), " was lost: ", how, "; ",
                                                who.self(), " noticed ", where)),
       true);
}

void Communicator::Impl::onPeerLeft(int worldRank) {
  const int peer = who.rankOfWorld(worldRank);
  if (peer < 0) return;
  {
    std::lock_guard lock(mutex);
    if (peers[peer].left) return;
  }
  onPeerLost(worldRank, "left the job without destroying the communicator");
}

// The dead, as a rank that is alive sends them: ranks of the communicator in ascending order.
static std::set<int> getDead(base::ByteReader& in, int size, int sender) {
  std::set<int> dead;
  const auto count = in.get<uint32_t>("number of the dead");
  for (uint32_t i = 0; i < count; ++i) {
    const auto rank = in.get<int32_t>("dead rank");
    const int least = dead.empty() ? 0 : *dead.rbegin() + 1;
    if (rank < least || rank >= size || rank == sender)
      base::fail(ErrorCode::Refused, "dead rank ", rank, " of ", size,
                 " is out of order or range, or the sender itself");
    dead.insert(rank);
  }
  return dead;
}

std::string Communicator::Impl::Status::describe() const {
  switch (activity) {
    case Activity::Exchange: return "sends and receives";
    case Activity::Collective: return base::message("is in operation ", sequence);
    case Activity::Nothing: break;
  }
  if (sequence == 0) return "has not called any collective";
  return base::message("has finished operation ", sequence, " and not called the next");
}

// A rank in a collective and one in an exchange that wait for each other, and still do so an
// inquiry later without a byte in between, are not in the same call: no message would tell them.
void Communicator::Impl::compareWaits(int peer, const Status& theirs) {
  const auto mine = recorder.find(turn.load(std::memory_order_acquire));
  const bool waits = mine && mine->phase == Phase::Running && mine->waitingFor == peer;
  const std::pair waited(waits ? mine->number : 0, waits ? mine->bytesReceived : 0);
  const Activity other = waits && mine->collective() ? Activity::Exchange : Activity::Collective;
  bool stuck;
  {
    std::lock_guard lock(mutex);
    Peer& p = peers[peer];
    stuck = waits && theirs.activity == other && theirs.waitingFor == who.rank() && p.answers &&
            p.status == theirs && p.waited == waited;
    p.status = theirs;
    p.answers = true;
    p.waited = waited;
  }
  if (stuck)
    fail(Error(ErrorCode::Mismatch,
               base::message("ranks disagree: ", who.self(), " is in ", textOf(*mine),
                             ", and waits for ", who.name(peer), ", which ", theirs.describe(),
                             " and waits for rank ", who.rank())),
         true);
}

void Communicator::Impl::onMessage(int from, bootstrap::ControlMessage message) {
  const int peer = who.rankOfWorld(from);
  if (peer < 0) return;
  try {
    base::ByteReader in(message.payload);
    switch (static_cast<Message>(message.type)) {
      case Message::Hello: {  // connect() reads it
        std::lock_guard lock(mutex);
        if (peers[peer].hello) base::fail(ErrorCode::Refused, "a second hello");
        peers[peer].hello = std::move(message);
        break;
      }
      case Message::Gpu: {
        communicator::ToldGpuState told{communicator::GpuState::read(message.payload, size),
                                        std::move(message.descriptors)};
        std::lock_guard lock(mutex);
        peers[peer].gpu.push_back(std::move(told));
        break;
      }
      case Message::Ready: {
        in.requireEnd();
        std::lock_guard lock(mutex);
        ++peers[peer].ready;
        break;
      }
      case Message::View: {
        const auto operations = in.get<uint64_t>("operations");
        const auto vote = in.get<uint32_t>("vote");
        const auto round = in.get<uint32_t>("round");
        std::set<int> dead = getDead(in, size, peer);
        in.requireEnd();
        std::lock_guard lock(mutex);
        auto& views = peers[peer].views;
        if (!views.empty() && views.rbegin()->first >= std::pair(vote, round))
          base::fail(ErrorCode::Refused, "a view of vote ", vote, ", round ", round,
                     " came after a later one");
        views[{vote, round}] = std::move(dead);
        peers[peer].stoppedAfter = operations;
        someoneStopped.store(true, std::memory_order_release);
        break;
      }
      case Message::Decision: {
        const auto vote = in.get<uint32_t>("vote");
        std::set<int> dead = getDead(in, size, peer);
        in.requireEnd();
        std::lock_guard lock(mutex);
        decisions.emplace(vote, std::move(dead));
        break;
      }
      case Message::Goodbye: {
        const auto operations = in.get<uint64_t>("operations");
        const auto onGpu = in.get<uint64_t>("collectives on the GPU");
        in.requireEnd();
        std::lock_guard lock(mutex);
        peers[peer].left = true;
        peers[peer].leftGpuAfter = onGpu;
        peers[peer].stoppedAfter = operations;
        someoneStopped.store(true, std::memory_order_release);
        break;
      }
      case Message::Failure: {
        const auto code = in.getEnum("code", ErrorCode::InvalidArgument, ErrorCode::Internal);
        std::string text = oneLine(in.getString("text", kMaxToldBytes));
        in.requireEnd();
        const std::string by = " (reported by rank ";
        if (text.find(by) == std::string::npos) text += base::message(by, peer, ")");
        fail(Error(code, text), false);
        break;
      }
      case Message::Status: {
        Status theirs{.sequence = in.get<uint64_t>("operation")};
        theirs.activity = in.getEnum("activity", Activity::Nothing, Activity::Exchange);
        theirs.waitingFor = in.get<int32_t>("awaited rank");
        in.requireEnd();
        if (theirs.waitingFor < -1 || theirs.waitingFor >= size)
          base::fail(ErrorCode::Refused, "waits for rank ", theirs.waitingFor, " of ", size);
        compareWaits(peer, theirs);
        break;
      }
      case Message::Inquiry: {
        const auto by = in.getEnum("who asks", Inquirer::Host, Inquirer::GpuWaiting);
        const auto sequence = in.get<uint64_t>("operation");
        const CallFacts theirs = CallFacts::read(in);
        in.requireEnd();
        const auto mine = (by == Inquirer::Host ? recorder : gpuRecorder).findCollective(sequence);
        if (by == Inquirer::GpuWaiting && gpuWasCaptured.load(std::memory_order_acquire)) return;
        if (mine && !(*mine->collective() == theirs))
          return fail(Error(ErrorCode::Mismatch,
                            base::message("ranks disagree about operation ", sequence, ": ",
                                          who.name(peer), " calls ", theirs.describe(), "; ",
                                          who.self(), " calls ", mine->describe())),
                      true);
        if (by != Inquirer::Host) return;
        const Status now = status();
        send(peer, Message::Status,
             base::ByteWriter().put(now.sequence).put(now.activity).put(now.waitingFor).take());
        return;
      }
      default: base::fail(ErrorCode::Refused, "unknown message ", message.type);
    }
  } catch (const std::exception& e) {
    fail(Error(ErrorCode::Internal,
               base::message(who.name(peer), " sent a malformed control message: ", e.what())),
         true);
  }
  changed.notify_all();
}

Communicator::Impl::Status Communicator::Impl::status() const {
  const uint64_t current = turn.load(std::memory_order_acquire);
  const uint64_t done = collectivesDone.load(std::memory_order_acquire);
  if (current > issued.load(std::memory_order_acquire)) return {.sequence = done};
  const auto entry = recorder.find(current);
  if (!entry) return {.sequence = done + 1, .activity = Activity::Collective};
  return {.sequence = entry->sequence,
          .activity = entry->collective() ? Activity::Collective : Activity::Exchange,
          .waitingFor = entry->phase == Phase::Running ? entry->waitingFor : -1};
}

void Communicator::Impl::onTick() {
  watchGpu();
  if (failed.load(std::memory_order_acquire)) return;
  const uint64_t current = turn.load(std::memory_order_acquire);
  const auto entry = recorder.find(current);
  if (!entry || entry->phase != Phase::Running) return;
  if (someoneStopped.load(std::memory_order_acquire)) {
    const auto error = entry->collective() ? stoppedBefore(entry->sequence) : std::nullopt;
    if (error) return fail(*error, true);
  }
  const int64_t now = clock.nowNs();
  const int64_t waited = now - entry->waitingSinceNs;
  if (watchedOperation != current || watchedPeer != entry->waitingFor) {
    straggling &= watchedOperation == current;
    watchedOperation = current;
    watchedPeer = entry->waitingFor;
    lastInquiryNs = 0;
  }
  if (watchedPeer < 0 || waited < kInquireAfterNs) return;
  if (links.endpoint()) {
    const auto cut = networkWatch.look(*links.endpoint(), current, {&watchedPeer, 1}, now);
    if (cut) return fail(links.cut(*cut, textOf(*entry)), true);
  }
  if (now - lastInquiryNs >= kInquireAgainNs) {
    lastInquiryNs = now;
    inquire(watchedPeer, current);
  }
  if (!straggling && settings.stragglerMs > 0 && waited >= settings.stragglerMs * 1'000'000) {
    straggling = true;
    std::string does = "does not answer";
    {
      std::lock_guard lock(mutex);
      if (peers[watchedPeer].answers) does = peers[watchedPeer].status.describe();
    }
    const bool near = links.topology().hostOf[watchedPeer] == links.topology().hostOf[who.rank()];
    const std::string process = near ? processState(who.info(watchedPeer).pid) : "";
    base::log(LogLevel::Warning, who.self(), ": ", textOf(*entry), " has waited ",
              waited / 1'000'000, " ms; straggler: ", who.name(watchedPeer), ", which ", does,
              process.empty() ? "" : "; its process is " + process);
  }
}

}  // namespace tutti
