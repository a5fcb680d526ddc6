#include <algorithm>

#include "src/base/check.h"
#include "src/plan/holders.h"
#include "src/plan/machine.h"
#include "src/plan/text.h"

namespace tutti::plan {

/// Inputs and outputs have a place per round and chunk, scratch one per chunk, reused by rounds.
void SymbolicMachine::layOut() {
  const auto rounds = static_cast<size_t>(rounds_);
  const size_t in = size_t{blocksOf(spec_, Buffer::In)} * spec_.divisions * rounds;
  const size_t out = size_t{blocksOf(spec_, Buffer::Out)} * spec_.divisions * rounds;
  const size_t scratch = size_t{spec_.scratchBlocks} * spec_.divisions;
  base_[1] = in;
  base_[2] = in + out;
  rankPlaces_ = in + out + scratch;
  places_.resize(rankPlaces_ * static_cast<size_t>(spec_.ranks));
  const uint32_t chunks = blocksOf(spec_, Buffer::In) * spec_.divisions;
  for (int rank = 0; rank < spec_.ranks; ++rank) {
    if (!isGiven(spec_, Buffer::In, rank)) continue;
    for (int round = 0; round < rounds_; ++round)
      for (uint32_t chunk = 0; chunk < chunks; ++chunk)
        places_[placeOf(rank, Buffer::In, chunk, round)].value =
            expressions_.leaf(rank, chunk, round);
  }
}

size_t SymbolicMachine::placeOf(int rank, Buffer buffer, uint32_t chunk, int round) const {
  if (inPlace_ && buffer != Buffer::Scratch) {
    // A rank that is not given both has nothing in place.
    const SharedChunk shared = sharedChunk(spec_, rank, buffer, chunk);
    buffer = shared.buffer;
    chunk = shared.chunk;
  }
  const size_t blockChunks = size_t{blocksOf(spec_, buffer)} * spec_.divisions;
  const size_t first = buffer == Buffer::Scratch ? 0 : static_cast<size_t>(round) * blockChunks;
  return static_cast<size_t>(rank) * rankPlaces_ + base_[static_cast<size_t>(buffer)] + first +
         chunk;
}

void SymbolicMachine::readPort(const FlatPort& port, uint32_t lane, uint32_t step) {
  if (port.kind != Port::Kind::Channel && !error_) readPlaces(port, lane, step);
}

std::string SymbolicMachine::nameOfPlace(const FlatPort& port, uint32_t index) const {
  return base::message("rank ", port.rank, "'s ", toString(port.buffer), ' ', port.chunk + index);
}

void SymbolicMachine::readPlaces(const FlatPort& port, uint32_t lane, uint32_t step) {
  const FlatStep& s = flat_.steps[step];
  const auto source = static_cast<size_t>(&port - flat_.sources(s).data());
  const int round = lanes_[lane].round;
  for (uint32_t i = 0; i < port.chunks && !error_; ++i) {
    const size_t at = placeOf(port.rank, port.buffer, port.chunk + i, round);
    Place& place = places_[at];
    if (place.value == kUninitialised)
      refuse(step, "reads " + nameOfPlace(port, i) + ", which nothing was written to");
    if (port.buffer == Buffer::In && place.writer != kNone && isReduction(spec_.collective))
      refuse(step, "reads " + nameOfPlace(port, i) + " as an input after " + name(place.writer) +
                       " wrote it, in place");
    if (place.readStamp >> 20 == stamp_) refuse(step, "reads " + nameOfPlace(port, i) + " twice");
    place.readStamp = stamp_ << 20 | i;
    operands_[source].push_back(place.value);
    if (!races_) continue;
    if (const auto other = races_->read(lane, step, at))
      refuse(step,
             "may read " + nameOfPlace(port, i) + " while it is written by " + name(other->step));
    if (port.kind == Port::Kind::Mapped) races_->touch(lane, step, port.rank);
  }
}

/// results_ = the step's fold, chunk by chunk.
void SymbolicMachine::compute(uint32_t step) {
  const FlatStep& s = flat_.steps[step];
  size_t chunks = 0;
  for (size_t i = 0; i < s.sources; ++i) chunks = std::max(chunks, operands_[i].size());
  results_.clear();
  for (size_t chunk = 0; chunk < chunks && !error_; ++chunk) {
    column_.clear();
    for (size_t i = 0; i < s.sources; ++i)
      if (!operands_[i].empty()) column_.push_back(operands_[i][chunk]);
    for (ExpressionId operand : column_) {
      if (!expressions_.sameElements(operand, column_[0]))
        refuse(step,
               "adds " + expressions_.print(operand) + " to " + expressions_.print(column_[0]));
      if (column_.size() > 1 && expressions_.isComplete(operand))
        refuse(step, "adds to the whole sum " + expressions_.print(operand));
    }
    results_.push_back(column_.size() > 1 ? expressions_.fold(s.fold, column_) : column_[0]);
    if (!s.completes || error_) continue;
    if (expressions_.isComplete(results_.back())) {
      refuse(step, "completes what is complete");
    } else if (const std::string fault = expressions_.faultOfSum(results_.back(), spec_.ranks);
               !fault.empty()) {
      refuse(step, "completes " + expressions_.print(results_.back()) + ": " + fault);
    }
    results_.back() = expressions_.complete(results_.back(), column_.size() == 1);
  }
}

/// Chunk `chunk` of a copy in place. The host's executor, the only one that runs attached plans,
/// leaves it alone, so that others may read it meanwhile.
bool SymbolicMachine::isCopyOntoItself(const Place& place, uint32_t step, uint32_t chunk) const {
  const FlatStep& s = flat_.steps[step];
  return spec_.protocol == Protocol::Attached && inPlace_ && s.sources == 1 && !s.completes &&
         place.readStamp == (stamp_ << 20 | chunk);
}

void SymbolicMachine::writePlaces(const FlatPort& port, uint32_t lane, uint32_t step) {
  const int round = lanes_[lane].round;
  for (uint32_t i = 0; i < port.chunks && !error_; ++i) {
    const size_t at = placeOf(port.rank, port.buffer, port.chunk + i, round);
    Place& place = places_[at];
    if (isCopyOntoItself(place, step, i)) continue;
    if (place.writeStamp == stamp_) refuse(step, "writes " + nameOfPlace(port, i) + " twice");
    if (place.readStamp >> 20 == stamp_ && (place.readStamp & 0xFFFFF) != i)
      refuse(step, "writes " + nameOfPlace(port, i) + ", which it reads as another chunk");
    place.writeStamp = stamp_;
    place.value = results_[i];
    place.writer = step;
    if (!races_) continue;
    if (const auto other = races_->write(lane, step, at))
      refuse(step,
             "may write " + nameOfPlace(port, i) + " while it is used by " + name(other->step));
    if (port.kind == Port::Kind::Mapped) races_->touch(lane, step, port.rank);
  }
}

void SymbolicMachine::judge() {
  if (races_) judgeEnds();
  measured_.canonicalOrder = isReduction(spec_.collective);
  for (int rank = 0; rank < spec_.ranks && !error_; ++rank)
    if (isGiven(spec_, Buffer::Out, rank)) judgeRank(rank);
}

/// No peer touches a rank's buffers after its end; a barrier is left after all have entered it.
void SymbolicMachine::judgeEnds() {
  for (int rank = 0; rank < spec_.ranks && !error_; ++rank) {
    const uint32_t first = flat_.firstLane[static_cast<size_t>(rank)];
    const uint32_t last = flat_.firstLane[static_cast<size_t>(rank) + 1];
    if (const auto late = races_->untold(rank, first, last))
      refuse(late->step,
             base::message("may touch rank ", rank, "'s buffer after rank ", rank, " has ended"));
    if (spec_.collective != Collective::Barrier) continue;
    for (int other = 0; other < spec_.ranks && !error_; ++other) {
      const uint32_t from = flat_.firstLane[static_cast<size_t>(other)];
      const uint32_t to = flat_.firstLane[static_cast<size_t>(other) + 1];
      bool known = other == rank;
      for (uint32_t lane = from; lane < to; ++lane) known |= races_->knowsStart(lane, first, last);
      if (!known)
        error_ = CheckError{rank, -1, -1,
                            base::message("rank ", rank, " may leave before rank ", other,
                                          " has entered; no step of rank ", rank, " waits for it")};
    }
  }
}

void SymbolicMachine::judgeRank(int rank) {
  const uint32_t chunks = blocksOf(spec_, Buffer::Out) * spec_.divisions;
  for (int round = 0; round < rounds_; ++round)
    for (uint32_t chunk = 0; chunk < chunks && !error_; ++chunk) judgeChunk(rank, chunk, round);
}

void SymbolicMachine::judgeChunk(int rank, uint32_t chunk, int round) {
  const Place& place = places_[placeOf(rank, Buffer::Out, chunk, round)];
  const auto own = static_cast<uint32_t>(rank) * spec_.divisions;
  const auto wrong = [&](const std::string& what) {
    const std::string text = base::message("rank ", rank, "'s out ", chunk, " of round ", round,
                                           " holds ", expressions_.print(place.value), ", ", what);
    if (place.writer != kNone) return refuse(place.writer, text);
    error_ = CheckError{rank, -1, -1, text + base::message("; no step of any rank writes it")};
  };
  if (place.value == kUninitialised) return wrong("nothing was written to it");
  // Of inputs with a block for every rank, this rank's blocks count; of an output with a block for
  // every rank, the block's rank gave it.
  const uint32_t input = chunk % spec_.divisions + (givesBlocks(spec_.collective) ? own : 0);
  if (!isReduction(spec_.collective)) {
    const int from =
        getsBlocks(spec_.collective) ? static_cast<int>(chunk / spec_.divisions) : spec_.root;
    const ExpressionId expected = expressions_.leaf(from, input, round);
    if (place.value != expected) wrong("not " + expressions_.print(expected));
    return;
  }
  if (!expressions_.sameElements(place.value, expressions_.leaf(0, input, round)))
    return wrong(base::message("not the sum of in ", input));
  if (spec_.collective == Collective::Scan) {
    if (const std::string fault = expressions_.faultOfSum(place.value, rank + 1); !fault.empty())
      return wrong(fault);
  } else if (!expressions_.isComplete(place.value)) {
    return wrong("which no step completed");
  }
  if (spec_.collective == Collective::AllReduce) {
    const ExpressionId first = places_[placeOf(0, Buffer::Out, chunk, round)].value;
    if (place.value != first)
      wrong("but rank 0 has added in the order " + expressions_.print(first));
  }
  const int addends = spec_.collective == Collective::Scan ? rank + 1 : spec_.ranks;
  const bool canonical = expressions_.isCanonical(place.value, addends);
  if (spec_.canonicalOrder && !canonical) wrong("not in the canonical order");
  measured_.canonicalOrder &= canonical;
  if (measured_.expression.empty()) measured_.expression = expressions_.print(place.value);
}

}  // namespace tutti::plan
