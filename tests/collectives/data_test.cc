// The checker's word against data: an interpreter of plan.h's machine in its simplest form runs
// every plan on 64-bit integers, lanes chosen at random, with exactly `minSlots` slots and buffers
// full of garbage, and compares with sums made directly. Shapes take part: odd counts, empty
// chunks, many rounds.

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>

#include "tests/collectives/plans.h"

namespace tutti::collectives {
namespace {

using plan::Buffer;
using plan::Extent;
using plan::Port;
using plan::Step;
using Words = std::vector<uint64_t>;

class Interpreter {
 public:
  Interpreter(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t count, size_t slotBytes,
              bool inPlace, uint64_t seed)
      : spec_(spec),
        shape_(spec, count, sizeof(uint64_t), slotBytes),
        count_(count),
        inPlace_(inPlace),
        random_(seed) {
    for (int rank = 0; rank < spec.ranks; ++rank) {
      programs_.push_back(info.build(spec, rank));
      for (size_t lane = 0; lane < programs_.back().lanes.size(); ++lane)
        if (!programs_.back().lanes[lane].steps.empty()) running_.push_back({rank, lane, 0, 0});
      fill(rank);
    }
  }

  /// False when nothing can move any more before the end.
  bool run() {
    size_t idle = 0;
    while (!running_.empty() && idle < 64 * running_.size() + 64) {
      const size_t pick = random_() % running_.size();
      idle = advance(pick) ? 0 : idle + 1;
    }
    return running_.empty();
  }

  /// What rank `rank` must hold in element `index` of its output.
  uint64_t expected(int rank, uint64_t index) const {
    uint64_t sum = 0;
    switch (spec_.collective) {
      case Collective::Broadcast: return original_[static_cast<size_t>(spec_.root)][index];
      case Collective::AllGather: return original_[index / count_][index % count_];
      case Collective::ReduceScatter:
        index += static_cast<uint64_t>(rank) * count_;
        [[fallthrough]];
      default:
        for (const Words& input : original_) sum += input[index];
        return sum;
    }
  }
  bool hasOutput(int rank) const {
    if (spec_.collective == Collective::Barrier) return false;
    return spec_.collective != Collective::Reduce || rank == spec_.root;
  }
  const uint64_t* output(int rank) { return at(rank, Buffer::Out); }
  uint64_t outputWords() const { return plan::blocksOf(spec_, Buffer::Out) * count_; }

 private:
  struct Runner {
    int rank;
    size_t lane;
    size_t step;
    int64_t round;
  };

  void fill(int rank) {
    const auto words = [&](Buffer b) { return plan::blocksOf(spec_, b) * count_; };
    const auto garbage = [&](uint64_t n) {
      Words made(n);
      for (uint64_t& word : made) word = random_();
      return made;
    };
    in_.push_back(garbage(words(Buffer::In)));
    out_.push_back(garbage(words(Buffer::Out)));
    scratch_.push_back(garbage(shape_.scratchBytes() / sizeof(uint64_t)));
    original_.push_back(in_.back());
    // In place the input of Broadcast and Reduce counts only where the user gives both.
    if (inPlace_ && spec_.collective != Collective::ReduceScatter && hasOutput(rank) &&
        (spec_.collective != Collective::Broadcast || rank == spec_.root))
      std::copy(in_.back().begin(), in_.back().end(), at(rank, Buffer::In));
  }

  uint64_t* at(int rank, Buffer buffer) {
    const auto r = static_cast<size_t>(rank);
    const uint64_t own = r * count_;
    if (buffer == Buffer::Scratch) return scratch_[r].data();
    const bool aliased = inPlace_ && hasOutput(rank) &&
                         (spec_.collective != Collective::Broadcast || rank == spec_.root);
    if (!aliased) return buffer == Buffer::In ? in_[r].data() : out_[r].data();
    if (spec_.collective == Collective::ReduceScatter)
      return in_[r].data() + (buffer == Buffer::Out ? own : 0);
    if (spec_.collective == Collective::AllGather && buffer == Buffer::In)
      return out_[r].data() + own;
    return out_[r].data();
  }

  std::deque<Words>& wire(int from, int to, int channel) { return wires_[{from, to, channel}]; }

  bool advance(size_t pick) {
    Runner& runner = running_[pick];
    const plan::Lane& lane = programs_[static_cast<size_t>(runner.rank)].lanes[runner.lane];
    const Step& step = lane.steps[runner.step];
    for (const Port& p : step.sources)
      if (p.kind == Port::Kind::Channel && wire(p.rank, runner.rank, lane.channel).empty())
        return false;
    for (const Port& p : step.targets)
      if (p.kind == Port::Kind::Channel &&
          wire(runner.rank, p.rank, lane.channel).size() >= static_cast<size_t>(spec_.minSlots))
        return false;
    fire(step, runner.rank, lane.channel, runner.round);
    if (++runner.step == lane.steps.size()) {
      runner.step = 0;
      if (++runner.round == shape_.rounds())
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    return true;
  }

  void fire(const Step& step, int rank, int channel, int64_t round) {
    Words result;
    bool first = true;
    for (const Port& p : step.sources) {
      Words operand;
      if (p.kind == Port::Kind::Channel) {
        operand = std::move(wire(p.rank, rank, channel).front());
        wire(p.rank, rank, channel).pop_front();
      } else {
        operand = load(p, rank, round);
      }
      if (p.chunks == 0) continue;
      result.resize(operand.size());
      for (size_t i = 0; i < operand.size(); ++i)
        result[i] = first ? operand[i] : result[i] + operand[i];
      first = false;
    }
    for (const Port& p : step.targets)
      if (p.kind == Port::Kind::Channel)
        wire(rank, p.rank, channel).push_back(p.chunks > 0 ? result : Words{});
      else
        store(p, rank, round, result);
  }

  template <class Visit>
  void eachExtent(const Port& p, int rank, int64_t round, Visit visit) {
    const int owner = p.kind == Port::Kind::Mapped ? p.rank : rank;
    for (uint32_t i = 0; i < p.chunks; ++i) {
      const Extent e = shape_.extent(p.buffer, p.chunk + i, round);
      visit(at(owner, p.buffer) + e.offset / sizeof(uint64_t), e.bytes / sizeof(uint64_t));
    }
  }
  Words load(const Port& p, int rank, int64_t round) {
    Words words;
    eachExtent(p, rank, round, [&](const uint64_t* from, uint64_t n) {
      words.insert(words.end(), from, from + n);
    });
    return words;
  }
  void store(const Port& p, int rank, int64_t round, const Words& words) {
    size_t done = 0;
    eachExtent(p, rank, round, [&](uint64_t* to, uint64_t n) {
      std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(done), n, to);
      done += n;
    });
    ASSERT_EQ(done, words.size()) << "both ends must agree on the bytes";
  }

  const PlanSpec& spec_;
  const plan::Shape shape_;
  const uint64_t count_;
  const bool inPlace_;
  std::mt19937_64 random_;
  std::vector<Program> programs_;
  std::vector<Runner> running_;
  std::vector<Words> in_, out_, scratch_, original_;
  std::map<std::tuple<int, int, int>, std::deque<Words>> wires_;
};

void expectRight(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t count, bool inPlace,
                 uint64_t seed) {
  const size_t slotBytes = std::max<uint32_t>(1, spec.messageChunks) * size_t{128};
  Interpreter run(info, spec, count, slotBytes, inPlace, seed);
  ASSERT_TRUE(run.run()) << "stuck: " << spec.describe() << ", seed " << seed;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    if (!run.hasOutput(rank)) continue;
    for (uint64_t i = 0; i < run.outputWords(); ++i)
      ASSERT_EQ(run.output(rank)[i], run.expected(rank, i))
          << spec.describe() << ", rank " << rank << ", element " << i << " of " << count
          << (inPlace ? ", in place" : "") << ", seed " << seed;
  }
}

TEST(Data, EveryPlanMovesWhatTheCheckerSaysItMoves) {
  const uint64_t seed = 20240607;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int channels : {1, 2})
      for (const AlgorithmInfo& info : registry().algorithms())
        for (const PlanSpec& spec : test::specsOf(info, ranks, channels)) {
          if (spec.root > 1 && spec.root < ranks - 1) continue;
          for (uint64_t count : {0ULL, 1ULL, 37ULL, 500ULL})
            for (bool inPlace : {false, true}) {
              expectRight(info, spec, count, inPlace, seed + count);
              if (HasFatalFailure()) return;
            }
        }
}

TEST(Data, TheInterpreterSeesWhatTheCheckerRefuses) {
  AlgorithmInfo ring = registry().find(Algorithm::Ring);
  PlanSpec spec = *ring.spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1});
  spec.minSlots = 1;
  EXPECT_FALSE(Interpreter(ring, spec, 500, 128, false, 1).run()) << "a circular wait went through";
  spec.minSlots = 2;
  ring.build = [good = ring.build](const PlanSpec& s, int rank) {
    Program program = good(s, rank);
    if (rank == 2) program.lanes[0].steps[1].sources.pop_back();  // its input is not added
    return program;
  };
  Interpreter broken(ring, spec, 500, 128, false, 1);
  ASSERT_TRUE(broken.run());
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < 500; ++i) wrong += broken.output(0)[i] != broken.expected(0, i);
  EXPECT_GT(wrong, 0U);
}

}  // namespace
}  // namespace tutti::collectives
