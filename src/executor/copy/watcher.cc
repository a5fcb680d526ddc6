#include "src/executor/copy/watcher.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/library_stream.h"

namespace tutti::executor::copy {

using device::OnDevice;
using device::OutsideCapture;
using transports::p2p::PinnedMemory;

/// What one look reads.
struct Watcher::View {
  struct Words {
    uint32_t poisons[2];     // of P2pEndpoint::copyPoisons(), where there are two
    uint32_t before, after;  // the count of operations, before and after the lanes
    CopyNotice notice;
  };
  PinnedMemory<Words> words{1};
  PinnedMemory<LaneView> lanes{kMostLanes};
  PinnedMemory<LaneState> now{kMostLanes};  // of isWaiting()
};

namespace {

std::string describeMessage(uint32_t call, uint32_t told) {
  if (!isOfTransfer(call))
    return base::message("a message of ", told, " bytes and fingerprint ", call);
  const uint32_t count = told & kMostTold;
  const auto type = static_cast<DataType>(told >> 28);
  if (static_cast<int>(type) >= kDataTypeCount)  // the words of a mark may be of two
    return base::message(count, " elements");
  return base::message(count == kMostTold ? "at least " : "", count, " ", toString(type));
}

/// In two, of which each is read whole as one of more words need not be.
void copyNotice(StreamQueue& queue, void* to, const void* from) {
  constexpr size_t kFirst = offsetof(CopyNotice, sentCall);
  queue.copy(to, from, kFirst);
  queue.copy(static_cast<unsigned char*>(to) + kFirst,
             static_cast<const unsigned char*>(from) + kFirst, sizeof(CopyNotice) - kFirst);
}

/// Of the host's memory, by that of the device.
template <class Word>
void read(StreamQueue& queue, Word* to, Word* between, const Word* from) {
  queue.copy(between, from, sizeof(Word));
  queue.copy(to, between, sizeof(Word));
}

std::string describeMismatch(int receiver, int sender, const CopyNotice& notice) {
  return base::message("ranks disagree: rank ", receiver, " receives ",
                       describeMessage(notice.call, notice.told), " from rank ", sender,
                       ", which sends ", describeMessage(notice.sentCall, notice.sentTold));
}

}  // namespace

Watcher::Watcher(const Ground& ground, uint64_t deadlineNs)
    : ground_(ground), deadlineNs_(deadlineNs), seen_(kMostLanes) {
  OnDevice on(ground.endpoint.device());
  view_ = std::make_unique<View>();
  stream_ = device::makeLibraryStream(device::StreamPurpose::SetUp);
}

Watcher::~Watcher() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Watcher::include(size_t lanes) {
  const std::lock_guard lock(mutex_);
  lanes_ = std::max(lanes_, lanes);
}

std::optional<ExecutorFailure> Watcher::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Watcher::isWaiting() {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  OnDevice on(ground_.endpoint.device());
  const OutsideCapture relaxed;
  LaneState* const states = view_->now.data();
  StreamQueue queue(stream_, ground_.waitFlags);
  for (size_t i = 0; i < lanes_; ++i)
    queue.copy(states + i, &ground_.own->lanes[i].state, sizeof(LaneState));
  TUTTI_CUDA(cudaStreamSynchronize(stream_));
  return std::any_of(states, states + lanes_, [](const LaneState& state) {
    return waitingOf(state.place) != Waiting::Nothing;
  });
}

std::vector<int> Watcher::awaited(std::chrono::nanoseconds since) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> peers;
  for (size_t i = 0; i < lanesLookedAt_ && !failure_; ++i)
    if (isWait(seen_[i].state.place) && Clock::now() - seen_[i].since > since)
      peers.push_back(peerOf(seen_[i].state.place));
  return peers;
}

std::optional<uint32_t> Watcher::collectiveAwaitedIn() const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < lanesLookedAt_ && !failure_; ++i)
    if (isWait(seen_[i].state.place) && !isOfTransfer(seen_[i].state.call))
      return seen_[i].operation;
  return std::nullopt;
}

void Watcher::look() {
  const std::lock_guard lock(mutex_);
  OnDevice on(ground_.endpoint.device());
  const OutsideCapture relaxed;
  if (!device::hasEnded(stream_)) return;
  if (isLooking_) ended_ = view_->words.data()->after;
  if (isLooking_ && !failure_) judge();
  isLooking_ = false;
  if (failure_) {
    StreamQueue queue(stream_, ground_.waitFlags);
    open(queue);
    return;
  }
  begin();
}

// All by copies of a few words, each of which is read whole.
void Watcher::begin() {
  StreamQueue queue(stream_, ground_.waitFlags);
  const auto& endpoint = ground_.endpoint;
  View::Words& words = *view_->words.data();
  const auto poisons = endpoint.copyPoisons();
  queue.copy(&words.poisons[0], poisons[0], sizeof(uint32_t));
  for (size_t i = 1; i < poisons.size(); ++i)
    read<uint32_t>(queue, &words.poisons[i], &ground_.own->seen.poison, poisons[i]);
  queue.copy(&words.before, ground_.own->count + kCounted, sizeof(uint32_t));
  for (size_t i = 0; i < lanes_; ++i) {
    LaneView& lane = view_->lanes.data()[i];
    const LaneState& last = seen_[i].state;
    queue.copy(&lane.first, &ground_.own->lanes[i].state, sizeof(LaneState));
    if (waitingOf(last.place) == Waiting::Message) {
      const int peer = peerOf(last.place);
      const CopyMark* const mark =
          endpoint.here(peer).copyMark(channelOf(last.place), slotOf(last.place));
      if (endpoint.isByHost(peer))
        read(queue, &lane.mark, &ground_.own->seen.marks[i], mark);
      else
        queue.copy(&lane.mark, mark, sizeof(CopyMark));
    }
    queue.copy(&lane.second, &ground_.own->lanes[i].state, sizeof(LaneState));
  }
  queue.copy(&words.after, ground_.own->count + kCounted, sizeof(uint32_t));
  lanesLookedAt_ = lanes_;
  isLooking_ = true;
}

// Disagreement first: who has found one gives up, and tells so.
void Watcher::judge() {
  for (size_t i = 0; i < lanesLookedAt_ && !failure_; ++i) judgeLane(i);
  for (const uint32_t poison : view_->words.data()->poisons)
    if (!failure_ && static_cast<int32_t>(poison) < 0) judgePoison(poison);
}

std::string Watcher::where() const {
  return base::message("rank ", ground_.endpoint.rank(), ", operation ", ended_, ": ");
}

std::string Watcher::describe(const LaneState& state) {
  const std::string message = describeMessage(state.call, state.told);
  const int peer = peerOf(state.place);
  return waitingOf(state.place) == Waiting::Message
             ? base::message("for ", message, " from rank ", peer)
             : base::message("until rank ", peer, " has taken what is before ", message);
}

// The lane has waited for this message since the look before, and in no operation since: then the
// mark in between is one that it does not take. For what a state says is over before the slot is
// given back.
void Watcher::judgeLane(size_t index) {
  const View::Words& words = *view_->words.data();
  const LaneView& lane = view_->lanes.data()[index];
  Seen& seen = seen_[index];
  const Waiting what = waitingOf(lane.second.place);
  const bool isSame = lane.first == seen.state && lane.second == seen.state &&
                      words.before == seen.operation && words.after == seen.operation;
  if (!isSame || !isWait(lane.second.place)) {
    seen = {lane.second, words.after, Clock::now()};
    return;
  }
  const int rank = ground_.endpoint.rank(), peer = peerOf(seen.state.place);
  const CopyMark& mark = lane.mark;
  if (what == Waiting::Message && mark.alive == 1 && mark.call != 0 &&
      mark.call + mark.complement == kOpen && mark.call != seen.state.call) {
    const CopyNotice notice{
        1, static_cast<uint32_t>(peer), seen.state.call, seen.state.told, mark.call, mark.told};
    return giveUp(ErrorCode::Mismatch, peer, describeMismatch(rank, peer, notice), notice);
  }
  if (Clock::now() - seen.since > std::chrono::nanoseconds(deadlineNs_))
    giveUp(ErrorCode::Timeout, peer,
           base::message("the deadline passed while rank ", rank, " waits ", describe(seen.state)),
           CopyNotice{});
}

void Watcher::judgePoison(uint32_t poison) {
  const int from = static_cast<int>(poison - kPoison), rank = ground_.endpoint.rank();
  CopyNotice& notice = view_->words.data()->notice;
  StreamQueue queue(stream_, ground_.waitFlags);
  const CopyNotice* told = ground_.endpoint.here(from).copyNotice();
  if (ground_.endpoint.isByHost(from)) {
    copyNotice(queue, &ground_.own->seen.notice, told);
    told = &ground_.own->seen.notice;
  }
  copyNotice(queue, &notice, told);
  TUTTI_CUDA(cudaStreamSynchronize(stream_));  // the look's copies have come through before
  if (notice.isMismatch != 0 && notice.culprit == static_cast<uint32_t>(rank))
    return giveUp(ErrorCode::Mismatch, from, describeMismatch(from, rank, notice), {});
  std::string waits;
  for (size_t i = 0; i < lanesLookedAt_ && waits.empty(); ++i)
    if (isWait(seen_[i].state.place)) waits = ", while this one waits " + describe(seen_[i].state);
  giveUp(ErrorCode::PeerLost, from, base::message("rank ", from, " has given up", waits), {});
}

void Watcher::abort() { end("aborted", CopyNotice{}); }

void Watcher::leave() { end("it has left", {}); }

void Watcher::end(const std::string& why, std::optional<CopyNotice> notice) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  OnDevice on(ground_.endpoint.device());
  const OutsideCapture relaxed;
  giveUp(ErrorCode::Aborted, -1, why, notice);
}

// In the order of one stream. First the peers are told, whose operations end by looking whether
// they were: so none of them ends well with what comes from here from now on. Then what lanes copy
// is turned around, and the words are opened.
void Watcher::giveUp(ErrorCode code, int peer, const std::string& what,
                     std::optional<CopyNotice> notice) {
  failure_.emplace(Error(code, where() + what));
  failure_->peer = peer;
  failure_->operation = ended_;
  StreamQueue queue(stream_, ground_.waitFlags);
  if (notice) tellPeers(queue, *notice);
  Sources& sources = ground_.own->sources;
  for (uint32_t* word : {&sources.empty.call, &sources.empty.complement, &sources.empty.alive})
    queue.write(word, kOpen);
  queue.write(&sources.taken, 0);
  queue.write(&sources.freed, kTaken);
  for (uint32_t lane = 0; lane < kMostLanes; ++lane)
    queue.write(&ground_.own->lanes[lane].stage.alive, 0);
  open(queue);
}

void Watcher::tellPeers(StreamQueue& queue, const CopyNotice& notice) const {
  const auto& endpoint = ground_.endpoint;
  Sources& sources = ground_.own->sources;
  queue.write(&sources.notice.isMismatch, notice.isMismatch);
  queue.write(&sources.notice.culprit, notice.culprit);
  queue.write(&sources.notice.call, notice.call);
  queue.write(&sources.notice.told, notice.told);
  queue.write(&sources.notice.sentCall, notice.sentCall);
  queue.write(&sources.notice.sentTold, notice.sentTold);
  queue.write(&sources.poison, kPoison + static_cast<uint32_t>(endpoint.rank()));
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == endpoint.rank()) continue;
    const auto there = endpoint.there(peer);
    copyNotice(queue, there.copyNotice(), &sources.notice);
    queue.copy(there.copyPoison(), &sources.poison, sizeof(uint32_t));
  }
}

// All words that a stream of this rank may wait for. Copies of what was closed may be under way,
// and peers go on for a while: so look() does it again.
void Watcher::open(StreamQueue& queue) const {
  const auto& endpoint = ground_.endpoint;
  const auto& rings = endpoint.layout().rings;
  for (int channel = 0; channel < rings.channels; ++channel)
    for (int peer = 0; peer < endpoint.size(); ++peer)
      for (uint32_t slot = 0; slot < rings.slotCount; ++slot) {
        CopyMark* const mark = endpoint.here(peer).copyMark(channel, slot);
        for (uint32_t* part : {&mark->call, &mark->complement, &mark->alive})
          queue.write(part, kOpen);
        queue.write(endpoint.here(peer).copyCredit(channel, slot), 0);
      }
  for (uint32_t* const poison : endpoint.copyPoisons()) queue.write(poison, 0);
  queue.flush();
}

}  // namespace tutti::executor::copy
