#include "src/communicator/children.h"

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/wire/secrets.h"

namespace tutti::communicator {
namespace {

constexpr uint64_t kFromSplit = 1, kFromShrink = 2, kFromSubset = 3;  // first words

/// The same on all ranks that give the same words, and different from the parent's, from that of a
/// job's first communicator and from the channel of windows.
uint64_t derivedId(uint64_t parent, const std::vector<uint64_t>& words) {
  uint64_t hash = parent;
  for (const uint64_t word : words) hash = base::mixBits(hash ^ word);
  return hash | uint64_t{1} << 63;
}

}  // namespace

Growth::~Growth() {
  giveUp(Error(ErrorCode::Refused, "the communicator that was to grow is gone"));
}

UniqueId Growth::open(int ranks, UniqueId::Reach reach, std::chrono::milliseconds lifetime) {
  if (id_ && !ended())
    base::fail(ErrorCode::InvalidUsage,
               "growId(): the id of an earlier call is not used yet; grow() uses it");
  close();
  ticket_ = wire::randomBytes<sizeof(bootstrap::Ticket)>();
  rendezvous_ = bootstrap::openRendezvous(reach, lifetime, {.count = ranks, .ticket = ticket_});
  id_ = bootstrap::encode(rendezvous_->point());
  return *id_;
}

std::optional<Error> Growth::ended() const {
  if (const auto failure = rendezvous_->failure()) return Error(failure->code, failure->text);
  if (!rendezvous_->finished()) return std::nullopt;
  return Error(ErrorCode::Refused, "its rendezvous has ended");
}

void Growth::giveUp(const Error& why) {
  if (!id_) return;
  rendezvous_->giveUp({.code = why.code(), .text = why.what()});
  close();
}

void Growth::close() {
  id_.reset();
  rendezvous_.reset();
}

uint64_t Children::idOfSplit(uint32_t split, int64_t color) const {
  return derivedId(parent_, {kFromSplit, split, static_cast<uint64_t>(color)});
}

uint64_t Children::nextSubset(const std::vector<int>& members) {
  std::vector<uint64_t> words{kFromSubset, ++subsets_[members]};
  words.insert(words.end(), members.begin(), members.end());
  return derivedId(parent_, words);
}

uint64_t Children::idOfShrink(uint32_t vote, std::span<const int> survivors) const {
  std::vector<uint64_t> words{kFromShrink, vote};
  words.insert(words.end(), survivors.begin(), survivors.end());
  return derivedId(parent_, words);
}

}  // namespace tutti::communicator
