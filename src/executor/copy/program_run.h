#pragma once

// One launch of a rank's program: rounds unrolled, each lane's steps as work for its stream, in the
// order of plan/waves.h. A lane that waits for a step of another lane of this rank waits for all
// that was enqueued there until then: an event of the stream, however many such steps there are.

#include <map>
#include <utility>
#include <vector>

#include <tutti/types.h>
#include "src/executor/call.h"
#include "src/executor/copy/enqueuing.h"
#include "src/executor/copy/kernels.h"
#include "src/executor/copy/lane.h"
#include "src/executor/executor.h"
#include "src/plan/plan.h"
#include "src/plan/waves.h"

namespace tutti::executor::copy {

inline bool isChannel(const plan::Port& port) { return port.kind == plan::Port::Kind::Channel; }

class CopyPlan final : public PreparedPlan {
 public:
  const plan::PlanSpec& spec() const override { return spec_; }

 private:
  friend class CopyExecutor;
  friend class ProgramRun;
  plan::PlanSpec spec_;
  plan::Program program_;
  plan::Waves waves_;
  uint64_t operationsPerRound_ = 0;  // calls of CUDA, at most
};

class ProgramRun final : public Enqueuing {
 public:
  ProgramRun(const CopyPlan& plan, const CollectiveCall& call, const plan::PlanShape& shape,
             std::vector<CopyLane>& lanes, unsigned char* scratch, uint32_t foldBlocks);
  uint64_t place() const override;
  void enqueueNext() override;

 private:
  using Step = plan::Step;
  using Port = plan::Port;
  using Address = unsigned char*;

  /// Operands side by side: `sources`, then targets.
  struct Piece {
    std::vector<Address> operands;
    uint64_t bytes = 0;
  };

  /// How many messages each link has had: by channel, peer and whether it sends.
  using Counts = std::map<std::pair<int, int>, uint64_t>;

  void enqueueStep(uint32_t lane, uint32_t number);
  CopyMessage messageOf(const plan::Lane& lane, const Port& port, Counts& counts) const;
  uint64_t messageBytes(const Port& port) const;
  Address addressOf(CopyLane& lane, const Port& port, const CopyMessage& message, uint32_t index,
                    bool isSource) const;
  std::vector<Piece> piecesOf(CopyLane& lane, const Step& step,
                              const std::vector<CopyMessage>& messages) const;
  void move(CopyLane& lane, const Step& step, const std::vector<Piece>& pieces) const;
  void copy(CopyLane& lane, const std::vector<Piece>& pieces) const;
  void fold(CopyLane& lane, const Step& step, const Piece& piece) const;
  bool isScaled(const Port& port) const;

  const CopyPlan& plan_;
  const CollectiveCall& call_;
  const CallFacts& facts_;
  const plan::PlanShape shape_;
  std::vector<CopyLane>& lanes_;
  unsigned char* const scratch_;
  const uint32_t foldBlocks_;
  int64_t round_ = 0;
  size_t turn_ = 0;  // of the round
  Counts sent_, received_;
};

}  // namespace tutti::executor::copy
