#include <bit>

#include "collectives/builder.h"
#include "collectives/recursive.h"

namespace tutti::collectives {
namespace {

struct RankGroup {
  int first = 0;
  int size = 0;  // a power of two; 0 where there is no such group
};

/// Divisions that a rank is busy with.
struct BlockRange {
  uint32_t chunk, chunks;
};

int reverseBits(int value, int bits) {
  int reversed = 0;
  for (int i = 0; i < bits; ++i) reversed |= ((value >> i) & 1) << (bits - 1 - i);
  return reversed;
}

/// One rank's part in halving and doubling on one channel.
class RecursiveBuilder {
 public:
  RecursiveBuilder(const PlanSpec& spec, int rank, int channelNumber) {
    largest_ = static_cast<int>(std::bit_floor(static_cast<unsigned>(spec.ranks)));
    base_ = static_cast<uint32_t>(channelNumber * largest_);
    RankGroup group;
    for (int first = 0; first < spec.ranks;) {
      const auto rest = static_cast<unsigned>(spec.ranks - first);
      const RankGroup next{first, static_cast<int>(std::bit_floor(rest))};
      first += next.size;
      if (rank >= first) {
        larger_ = next;
      } else if (group.size == 0) {
        group = next;
      } else {
        smaller_ = next;
        break;
      }
    }
    group_ = group;
    me_ = rank - group.first;
    mine_ = {base_, static_cast<uint32_t>(largest_)};
  }

  std::vector<Step> steps() {
    halve();
    if (smaller_.size > 0) add(peerInSmaller(), Phase::Groups);
    if (larger_.size > 0) giveToLarger();
    if (larger_.size > 0) takeFromLarger();
    if (smaller_.size > 0) send(peerInSmaller(), mine_);
    twice();
    return std::move(steps_);
  }

 private:
  enum class Phase { Halving, Groups };

  int peerInSmaller() const { return smaller_.first + me_ % smaller_.size; }
  bool whole(Phase phase, bool last) const {
    return larger_.size == 0 && last && (phase == Phase::Groups || smaller_.size == 0);
  }

  void send(int to, BlockRange range) {
    steps_.push_back({.sources = {local(have_, range.chunk, range.chunks)},
                      .targets = {channel(to, range.chunk, range.chunks)}});
  }
  void receive(int from, BlockRange range) {
    steps_.push_back({.sources = {channel(from, range.chunk, range.chunks)},
                      .targets = {local(Buffer::Out, range.chunk, range.chunks)}});
  }
  /// Adds what `from` has of this rank's range.
  void add(int from, Phase phase, bool last = true) {
    steps_.push_back({.sources = {channel(from, mine_.chunk, mine_.chunks),
                                  local(have_, mine_.chunk, mine_.chunks)},
                      .targets = {local(Buffer::Out, mine_.chunk, mine_.chunks)},
                      .fold = Fold::Listed,
                      .completes = whole(phase, last)});
    have_ = Buffer::Out;
  }

  void halve() {
    for (int distance = 1; distance < group_.size; distance *= 2) {
      const int peer = group_.first + (me_ ^ distance);
      mine_.chunks /= 2;
      BlockRange other = mine_;
      ((me_ & distance) ? mine_ : other).chunk += mine_.chunks;
      send(peer, other);
      add(peer, Phase::Halving, 2 * distance == group_.size);
    }
  }

  /// A range of a small group is shared out among the members of the larger one whose number ends
  /// in the same bits.
  template <class Visit>
  void eachInLarger(Visit visit) {
    const int bits = floorLog2(larger_.size);
    const auto part = static_cast<uint32_t>(largest_ / larger_.size);
    for (int member = me_; member < larger_.size; member += group_.size)
      visit(larger_.first + member,
            BlockRange{base_ + static_cast<uint32_t>(reverseBits(member, bits)) * part, part});
  }
  void giveToLarger() {
    eachInLarger([&](int peer, BlockRange range) { send(peer, range); });
  }
  void takeFromLarger() {
    eachInLarger([&](int peer, BlockRange range) { receive(peer, range); });
    have_ = Buffer::Out;
  }

  void twice() {
    for (int distance = group_.size / 2; distance >= 1; distance /= 2) {
      const int peer = group_.first + (me_ ^ distance);
      BlockRange other = mine_;
      const bool upper = me_ & distance;
      other.chunk = upper ? mine_.chunk - mine_.chunks : mine_.chunk + mine_.chunks;
      send(peer, mine_);
      receive(peer, other);
      if (upper) mine_.chunk = other.chunk;
      mine_.chunks *= 2;
    }
  }

  RankGroup group_, larger_, smaller_;
  int largest_ = 0;
  int me_ = 0;         // number in the group
  uint32_t base_ = 0;  // first division of the channel
  BlockRange mine_{};
  Buffer have_ = Buffer::In;  // where this rank's sum so far lies
  std::vector<Step> steps_;
};

}  // namespace

plan::Lane groupsLane(const PlanSpec& spec, int rank, int channelNumber) {
  return {channelNumber, RecursiveBuilder(spec, rank, channelNumber).steps()};
}

Cost groupsCost(const PlanSpec& spec) {
  const int groups = std::popcount(static_cast<unsigned>(spec.ranks));
  const double first = std::bit_floor(static_cast<unsigned>(spec.ranks));
  const double blocks = groups == 1 ? 2 - 2 / first : groups == 2 ? 2 - 1 / first : 2;
  return {2 * floorLog2(spec.ranks), blocks, 1};
}

}  // namespace tutti::collectives
