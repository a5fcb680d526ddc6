#include "tests/collectives/interpreter.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/base/integers.h"

namespace tutti::collectives::test {

using base::mixBits;
using plan::Buffer;
using plan::Collective;
using plan::Extent;
using plan::Fold;
using plan::Port;
using plan::Step;

namespace {

constexpr uint64_t kAtOnce = 0x11, kDivided = 0x22, kDividedLater = 0x33;

bool channelOf(const Port& port) { return port.kind == Port::Kind::Channel; }

/// a + b, as little like an associative addition as can be.
uint64_t join(uint64_t a, uint64_t b) { return mixBits(a + b); }

uint64_t tree(const uint64_t* words, size_t n) {
  if (n == 1) return words[0];
  const size_t left = std::bit_ceil(n) / 2;
  return join(tree(words, left), tree(words + left, n - left));
}

}  // namespace

Interpreter::Interpreter(const plan::PlanSpec& spec, std::vector<plan::Program> programs,
                         const RunOptions& options)
    : spec_(spec),
      options_(options),
      blocks_(options.uneven.empty() ? Words(static_cast<size_t>(spec.ranks), options.count)
                                     : options.uneven),
      random_(options.dataSeed),
      programs_(std::move(programs)) {
  std::vector<plan::Block> places;
  for (size_t rank = 0; rank < blocks_.size(); ++rank)
    places.push_back({offset(rank) * sizeof(uint64_t), blocks_[rank] * sizeof(uint64_t)});
  for (int rank = 0; rank < spec.ranks; ++rank) {
    if (options.uneven.empty())
      shapes_.emplace_back(spec, options.count, sizeof(uint64_t), options.slotBytes);
    else
      shapes_.emplace_back(spec, places, rank, options.slotBytes);
    fill(rank);
    firstRunner_.push_back(runners_.size());
    for (size_t lane = 0; lane < programs_[static_cast<size_t>(rank)].lanes.size(); ++lane)
      runners_.push_back({rank, lane});
  }
  random_.seed(options.schedule);
}

bool Interpreter::run() {
  std::vector<size_t> order(runners_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (options_.schedule == 1) std::ranges::reverse(order);
  const bool drawn = options_.schedule > 1;
  if (drawn) std::ranges::shuffle(order, random_);
  for (bool moved = true; moved;) {
    if (drawn && options_.schedule % 2 == 1) std::ranges::shuffle(order, random_);
    moved = std::ranges::any_of(order, [&](size_t i) { return advance(runners_[i]); });
  }
  return std::ranges::all_of(runners_, [&](const Runner& runner) { return finished(runner); });
}

uint64_t Interpreter::offset(size_t rank) const {
  uint64_t words = 0;
  for (size_t r = 0; r < rank; ++r) words += blocks_[r];
  return words;
}

uint64_t Interpreter::words(int rank, Buffer buffer) const {
  if (plan::blocksOf(spec_, buffer) > 1) return offset(blocks_.size());
  return plan::blocksOf(spec_, buffer) * blocks_[static_cast<size_t>(rank)];
}

uint64_t Interpreter::expected(int rank, uint64_t index) const {
  const auto root = static_cast<size_t>(spec_.root);
  const uint64_t own = offset(static_cast<size_t>(rank));
  size_t block = 0;  // that `index` lies in, of all blocks
  while (block + 1 < blocks_.size() && index >= offset(block + 1)) ++block;
  const uint64_t within = index - offset(block);
  const auto sum = [&](size_t ranks, uint64_t at) {
    uint64_t all = 0;
    for (size_t r = 0; r < ranks; ++r) all += original_[r][at];
    return all;
  };
  switch (spec_.collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return sum(original_.size(), index);
    case Collective::ReduceScatter: return sum(original_.size(), own + index);
    case Collective::Scan: return sum(static_cast<size_t>(rank) + 1, index);
    case Collective::Broadcast: return original_[root][index];
    case Collective::Scatter: return original_[root][own + index];
    case Collective::AllGather:
    case Collective::Gather: return original_[block][within];
    case Collective::AllToAll: return original_[block][own + within];
    case Collective::Barrier: break;
  }
  return 0;
}

bool Interpreter::hasOutput(int rank) const { return plan::isGiven(spec_, Buffer::Out, rank); }

Words Interpreter::outputs() {
  Words all;
  if (spec_.collective == Collective::Barrier) all.push_back(leftEarly_);
  for (int rank = 0; rank < spec_.ranks; ++rank)
    if (hasOutput(rank)) all.insert(all.end(), output(rank), output(rank) + outputWords(rank));
  return all;
}

void Interpreter::fill(int rank) {
  const auto garbage = [&](uint64_t n) {
    Words made(n);
    for (uint64_t& word : made) word = random_();
    return made;
  };
  in_.push_back(garbage(words(rank, Buffer::In)));
  out_.push_back(garbage(words(rank, Buffer::Out)));
  scratch_.push_back(garbage(shapes_[static_cast<size_t>(rank)].scratchBytes() / sizeof(uint64_t)));
  original_.push_back(in_.back());
  if (aliased(rank) && !inputHoldsOutput())
    std::copy(in_.back().begin(), in_.back().end(), at(rank, Buffer::In));
}

/// In place only ranks that have both buffers have them in one memory.
bool Interpreter::aliased(int rank) const {
  return options_.inPlace && hasOutput(rank) && plan::isGiven(spec_, Buffer::In, rank);
}

/// In place, the memory is that of the larger buffer.
bool Interpreter::inputHoldsOutput() const {
  return plan::blocksOf(spec_, Buffer::In) > plan::blocksOf(spec_, Buffer::Out);
}

uint64_t* Interpreter::at(int rank, Buffer buffer) {
  const auto r = static_cast<size_t>(rank);
  const uint64_t own = offset(r);
  if (buffer == Buffer::Scratch) return scratch_[r].data();
  if (!aliased(rank)) return buffer == Buffer::In ? in_[r].data() : out_[r].data();
  if (inputHoldsOutput()) return in_[r].data() + (buffer == Buffer::Out ? own : 0);
  const bool isBlock = buffer == Buffer::In &&
                       plan::blocksOf(spec_, Buffer::In) < plan::blocksOf(spec_, Buffer::Out);
  return out_[r].data() + (isBlock ? own : 0);
}

bool Interpreter::finished(const Runner& runner) const {
  const auto& lane = programs_[static_cast<size_t>(runner.rank)].lanes[runner.lane];
  return lane.steps.empty() || runner.round == shapes_[0].rounds();
}

bool Interpreter::ready(const Runner& runner) const {
  const plan::Lane& lane = programs_[static_cast<size_t>(runner.rank)].lanes[runner.lane];
  const Step& step = lane.steps[runner.step];
  const auto waiting = [&](int from, int to) {
    const auto found = wires_.find({from, to, lane.channel});
    return found == wires_.end() ? size_t{0} : found->second.size();
  };
  const size_t first = firstRunner_[static_cast<size_t>(runner.rank)];
  return std::ranges::all_of(step.after,
                             [&](const plan::Dependency& d) {
                               const Runner& other = runners_[first + d.lane];
                               return other.round > runner.round ||
                                      (other.round == runner.round && other.step > d.step);
                             }) &&
         std::ranges::all_of(
             step.sources,
             [&](const Port& p) { return !channelOf(p) || waiting(p.rank, runner.rank) > 0; }) &&
         std::ranges::all_of(step.targets, [&](const Port& p) {
           return !channelOf(p) ||
                  waiting(runner.rank, p.rank) < static_cast<size_t>(spec_.minSlots);
         });
}

bool Interpreter::advance(Runner& runner) {
  if (finished(runner) || !ready(runner)) return false;
  const plan::Lane& lane = programs_[static_cast<size_t>(runner.rank)].lanes[runner.lane];
  fire(lane.steps[runner.step], runner.rank, lane.channel, runner.round);
  if (++runner.step == lane.steps.size()) {
    runner.step = 0;
    ++runner.round;
  }
  leftEarly_ |= spec_.collective == Collective::Barrier && isEarly(runner.rank);
  return true;
}

/// `rank` is through, and somebody has not begun.
bool Interpreter::isEarly(int rank) const {
  std::vector<bool> begun(programs_.size(), false);
  for (const Runner& runner : runners_) {
    if (runner.rank == rank && !finished(runner)) return false;
    if (runner.round > 0 || runner.step > 0) begun[static_cast<size_t>(runner.rank)] = true;
  }
  return std::ranges::find(begun, false) != begun.end();
}

void Interpreter::fire(const Step& step, int rank, int channel, int64_t round) {
  std::vector<Words> operands;
  for (const Port& p : step.sources) {
    Words operand;
    if (channelOf(p)) {
      operand = std::move(wire(p.rank, rank, channel).front());
      wire(p.rank, rank, channel).pop_front();
    } else {
      operand = load(p, rank, round);
    }
    if (p.chunks > 0) operands.push_back(std::move(operand));
  }
  const Words result = fold(step, operands);
  for (const Port& p : step.targets)
    if (channelOf(p))
      wire(rank, p.rank, channel).push_back(p.chunks > 0 ? result : Words{});
    else
      store(p, rank, round, result);
}

Words Interpreter::fold(const Step& step, const std::vector<Words>& operands) const {
  Words result(operands.empty() ? 0 : operands[0].size());
  Words column;
  for (size_t i = 0; i < result.size(); ++i) {
    column.clear();
    for (const Words& operand : operands) column.push_back(operand[i]);
    result[i] = fold(step, column);
  }
  return result;
}

uint64_t Interpreter::fold(const Step& step, const Words& column) const {
  uint64_t sum = column[0];
  if (options_.arithmetic == Arithmetic::Sum) {
    for (size_t i = 1; i < column.size(); ++i) sum += column[i];
    return sum;
  }
  for (size_t i = 1; i < column.size(); ++i) sum = join(sum, column[i]);
  if (step.fold == Fold::Canonical) sum = tree(column.data(), column.size());
  if (column.size() > 2) sum = mixBits(sum ^ kAtOnce);
  if (step.completes) sum = mixBits(sum ^ (column.size() > 1 ? kDivided : kDividedLater));
  return sum;
}

Words Interpreter::load(const Port& p, int rank, int64_t round) {
  Words words;
  for (uint32_t i = 0; i < p.chunks; ++i) {
    const int owner = p.kind == Port::Kind::Mapped ? p.rank : rank;
    const Extent e = shapes_[static_cast<size_t>(owner)].extent(p.buffer, p.chunk + i, round);
    const uint64_t* from = at(owner, p.buffer) + e.offset / sizeof(uint64_t);
    words.insert(words.end(), from, from + e.bytes / sizeof(uint64_t));
  }
  return words;
}

void Interpreter::store(const Port& p, int rank, int64_t round, const Words& words) {
  size_t done = 0;
  for (uint32_t i = 0; i < p.chunks; ++i) {
    const int owner = p.kind == Port::Kind::Mapped ? p.rank : rank;
    const Extent e = shapes_[static_cast<size_t>(owner)].extent(p.buffer, p.chunk + i, round);
    const size_t n = e.bytes / sizeof(uint64_t);
    TUTTI_ASSERT(done + n <= words.size(), "a message of ", words.size(), " words for ", done + n);
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(done), n,
                at(owner, p.buffer) + e.offset / sizeof(uint64_t));
    done += n;
  }
  TUTTI_ASSERT(done == words.size(), "both ends must agree on the bytes: ", done, " of ",
               words.size());
}

}  // namespace tutti::collectives::test
