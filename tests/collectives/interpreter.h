#pragma once

// plan.h's machine in its simplest form, on 64-bit words: it runs the programs of all ranks on
// random data, lanes in a chosen order, with exactly `minSlots` slots and buffers full of garbage.
// The witness against which the checker's word is held; it shares nothing with the checker but the
// plan and its Shape.

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::collectives::test {

using Words = std::vector<uint64_t>;

enum class Arithmetic {
  Sum,      ///< words add modulo 2^64, and completing does nothing: results are known directly
  Ordered,  ///< commutative and nothing else: another order, several steps instead of one with more
            ///< than two operands, or completing elsewhere gives another word, as rounding might
};

struct RunOptions {
  uint64_t count = 0;            ///< words of a block
  std::vector<uint64_t> uneven;  ///< words of each rank's block, where they differ
  size_t slotBytes = 128;
  bool inPlace = false;
  Arithmetic arithmetic = Arithmetic::Sum;
  uint64_t dataSeed = 1;
  /// Who moves of those that can. 0: always the first lane; 1: the last; even: by priorities drawn
  /// from it, so that some lanes run far ahead; odd: anybody, drawn each time.
  uint64_t schedule = 2;
};

class Interpreter {
 public:
  Interpreter(const plan::PlanSpec& spec, std::vector<plan::Program> programs,
              const RunOptions& options);

  /// False when nothing can move any more before the end.
  bool run();

  /// What rank `rank` must hold in element `index` of its output, in Arithmetic::Sum.
  uint64_t expected(int rank, uint64_t index) const;
  bool hasOutput(int rank) const;
  const uint64_t* output(int rank) { return at(rank, plan::Buffer::Out); }
  uint64_t outputWords(int rank) const { return words(rank, plan::Buffer::Out); }
  /// A barrier was left by some rank before another had made a step.
  bool leftEarly() const { return leftEarly_; }
  /// All that users see, one rank after the other; of a barrier, whether it was left early.
  Words outputs();

 private:
  struct Runner {
    int rank;
    size_t lane;
    size_t step = 0;
    int64_t round = 0;
  };

  /// Where a rank's block begins in a buffer of all blocks, in words.
  uint64_t offset(size_t rank) const;
  uint64_t words(int rank, plan::Buffer buffer) const;
  void fill(int rank);
  bool aliased(int rank) const;
  bool inputHoldsOutput() const;
  uint64_t* at(int rank, plan::Buffer buffer);
  std::deque<Words>& wire(int from, int to, int channel) { return wires_[{from, to, channel}]; }
  bool finished(const Runner& runner) const;
  bool ready(const Runner& runner) const;
  bool advance(Runner& runner);
  bool isEarly(int rank) const;
  void fire(const plan::Step& step, int rank, int channel, int64_t round);
  Words fold(const plan::Step& step, const std::vector<Words>& operands) const;
  uint64_t fold(const plan::Step& step, const Words& column) const;
  Words load(const plan::Port& port, int rank, int64_t round);
  void store(const plan::Port& port, int rank, int64_t round, const Words& words);

  const plan::PlanSpec spec_;
  const RunOptions options_;
  std::vector<uint64_t> blocks_;         // words of each rank's
  std::vector<plan::PlanShape> shapes_;  // by rank
  std::mt19937_64 random_;
  const std::vector<plan::Program> programs_;
  std::vector<Runner> runners_;
  std::vector<size_t> firstRunner_;  // of each rank
  std::vector<Words> in_, out_, scratch_, original_;
  std::map<std::tuple<int, int, int>, std::deque<Words>> wires_;
  bool leftEarly_ = false;
};

}  // namespace tutti::collectives::test
