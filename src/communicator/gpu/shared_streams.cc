#include "src/communicator/gpu/shared_streams.h"

namespace tutti::communicator {

std::map<Line, uint64_t> messagesOf(const executor::Exchange& exchange, int rank) {
  std::map<Line, uint64_t> messages;
  for (const executor::Transfer& to : exchange.sends) ++messages[{rank, to.peer}];
  for (const executor::Transfer& from : exchange.receives) ++messages[{from.peer, rank}];
  messages.erase({rank, rank});
  return messages;
}

SharedStreams& SharedStreams::ofProcess() {
  static SharedStreams streams;
  return streams;
}

int SharedStreams::launch(uint64_t group, const StreamIdentity& stream,
                          const std::vector<Part>& parts) {
  const std::lock_guard lock(mutex_);
  forgetOldest();
  Stream& here = launches_[{group, stream}];
  here.used = ++used_;
  for (const Part& part : parts)
    if (const int other = rankBefore(here.launched, part); other >= 0) return other;
  for (const Part& part : parts) here.launched[{part.line, part.rank}] = part.last;
  return -1;
}

void SharedStreams::forget(uint64_t group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(launches_, [&](const auto& entry) { return entry.first.first == group; });
}

int SharedStreams::rankBefore(const Launched& here, const Part& part) {
  for (auto at = here.lower_bound({part.line, 0}); at != here.end(); ++at) {
    const auto& [line, rank] = at->first;
    if (line != part.line) break;
    if (rank != part.rank && at->second >= part.first) return rank;
  }
  return -1;
}

// A program may make a stream, or a capture, for every call. What another rank launched on one so
// many streams ago is no call that a rank is just about to make.
void SharedStreams::forgetOldest() {
  constexpr size_t kMost = 4096;
  if (launches_.size() < kMost) return;
  std::erase_if(launches_,
                [&](const auto& entry) { return entry.second.used + kMost / 2 < used_; });
}

}  // namespace tutti::communicator
