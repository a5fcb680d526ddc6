#pragma once

// The checker's machine: runs a tied plan for a number of rounds on expressions instead of data.

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/expression.h"
#include "src/plan/flat_plan.h"
#include "src/plan/races.h"

namespace tutti::plan {

class SymbolicMachine {
 public:
  SymbolicMachine(const PlanSpec& spec, const std::vector<Program>& programs, const FlatPlan& flat,
                  Expressions& expressions, int rounds, bool inPlace);

  /// Runs to the end and judges what the ranks then hold.
  std::optional<CheckError> run();
  /// After a run without error.
  const Measured& measured() const { return measured_; }

 private:
  struct Message {
    std::vector<ExpressionId> values;
    Races::Snapshot snapshot = Races::kNoSnapshot;
    int depth = 0;
  };
  struct Wire {  // an edge while running
    std::deque<Message> queue;
    uint32_t waitingSender = kNone, waitingReceiver = kNone;
  };
  struct LaneState {
    int round = 0;
    uint32_t next = 0;              // within the lane
    int depth = 0;                  // of messages, in a run of one round
    std::vector<uint32_t> waiting;  // lanes that wait for a step of this one
  };
  struct Place {
    ExpressionId value = kUninitialised;
    uint32_t writer = kNone;  // step
    uint64_t readStamp = 0, writeStamp = 0;
  };
  struct Blocker {
    uint32_t lane;
    std::string why;
  };

  // machine.cc: lanes, messages, waits
  void layOut();
  bool advance(uint32_t lane);
  bool blocked(uint32_t lane, uint32_t step);
  bool isDone(uint32_t step, int round) const;
  void fire(uint32_t lane, uint32_t step);
  void wake(uint32_t& lane);
  void finishStep(uint32_t lane);
  std::optional<CheckError> deadlock() const;
  Blocker blockerOf(uint32_t lane) const;
  void measure();

  // machine_values.cc: what places hold
  size_t placeOf(int rank, Buffer buffer, uint32_t chunk, int round) const;
  void readPort(const FlatPort& port, uint32_t lane, uint32_t step);
  void readPlaces(const FlatPort& port, uint32_t lane, uint32_t step);
  void compute(uint32_t step);
  ExpressionId valueOf(const FlatStep& step, size_t chunk);
  bool isCopyOntoItself(const Place& place, uint32_t step, uint32_t chunk) const;
  void writePlaces(const FlatPort& port, uint32_t lane, uint32_t step);
  void judge();
  void judgeRank(int rank);
  void judgeChunk(int rank, uint32_t chunk, int round);
  void judgeEnds();

  void refuse(uint32_t step, const std::string& what);
  std::string name(uint32_t step) const;
  std::string nameOfPlace(const FlatPort& port, uint32_t index) const;

  const PlanSpec& spec_;
  const std::vector<Program>& programs_;
  const FlatPlan& flat_;
  Expressions& expressions_;
  const int rounds_;
  const bool inPlace_;
  const bool racy_;  // several lanes of a rank, or of several ranks, can touch one place
  std::optional<Races> races_;

  std::vector<Wire> wires_;
  std::vector<LaneState> lanes_;
  std::vector<uint32_t> ready_;
  std::vector<Place> places_;
  size_t base_[3] = {};  // of each buffer in a rank's places
  size_t rankPlaces_ = 0;
  std::vector<std::vector<Races::Snapshot>> awaited_;  // per round, per step named by `after`
  std::vector<std::vector<int>> awaitedDepth_;
  uint64_t stamp_ = 0;                               // numbers the firings
  std::vector<std::vector<ExpressionId>> operands_;  // of the firing step, per source
  std::vector<ExpressionId> results_, column_;
  int depth_ = 0;
  std::optional<CheckError> error_;
  Measured measured_;
};

}  // namespace tutti::plan
