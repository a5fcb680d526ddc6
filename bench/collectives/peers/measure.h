#pragma once

// A row's turns: block by block, each contender in each kind of memory.

#include <functional>

#include "bench/collectives/peers/contenders.h"
#include "bench/collectives/peers/row.h"

namespace tutti::bench {

struct Budget {
  double seconds = 10;    ///< of a row, where its calls are short enough
  int blocks = 15;        ///< as many, and kLeastBlocks where calls are long
  uint32_t calls = 1000;  ///< of a block, at most
};
constexpr int kLeastBlocks = 6;  // fewer have no 95% interval

class Measurement {
 public:
  /// Notes in `contest` what the contenders are, and which ones do not start. `memory` is that of
  /// Tutti. `freeBytes` are for all buffers and the libraries' temporaries.
  Measurement(std::vector<Contender> contenders, std::vector<std::string> memory,
              uint64_t freeBytes, Jobs& jobs, Contest& contest);

  /// Where not all of them have memory at once, Tutti takes turns with some after the others.
  /// Throws std::runtime_error where it has none beside a single one, and when Tutti does not
  /// start.
  Row measure(const Case& what, const Budget& budget);

 private:
  struct Entrant {
    const Contender* who;
    std::string series;
    uint32_t ordinary;
    uint32_t calls = 1;
    double callSeconds = 0;  ///< with all that is beside the call
  };
  using Group = std::vector<const Contender*>;

  std::vector<Group> groups(const Case& what) const;
  std::vector<Entrant> entrants(const Case& what, const Group& group);
  bool starts(const Contender& contender);
  void takeTurns(Row& row, const Group& group, const Budget& budget);
  /// Where that fails, the row has the error, and later ones of the entrant are not run.
  void guarded(Row& row, const Entrant& entrant, const std::function<void(Series&)>& run);
  /// Throws std::runtime_error where a peer's calls are too long for the budget.
  void probe(const Case& what, Entrant& entrant, const Budget& budget);
  double predictedUs(const Case& what, const Entrant& entrant, const Budget& budget);
  double block(const Case& what, const Entrant& entrant, const Budget& budget);
  /// The smaller size with which it was so, or null.
  const Case* tooSlowAt(const Case& what, const Contender& contender) const;
  bool isAbsent(const Contender& contender) const;

  std::vector<Contender> contenders_;
  std::vector<std::string> memory_;
  uint64_t freeBytes_;
  Jobs& jobs_;
  Contest& contest_;
};

}  // namespace tutti::bench
