#pragma once

// HostExecutor: runs one rank's operations on a thread of the host, one at a time. It keeps the
// operations that do it, and counts what has ended.
//
// Only the thread that drives an operation calls enter(), begin(), poll() of the operation and
// end(); release stores hand the executor on to the next one. Anybody may ask the rest.
//
// enter() raises the flag that isRunning() reads, in sequentially consistent order. Another thread
// may set a flag of its own and then ask isRunning(); the driving thread looks at that flag after
// enter(). So one of the two sees the other. A collective is counted before the flag goes down.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/executor/call.h"
#include "src/executor/exchange.h"
#include "src/executor/executor.h"
#include "src/executor/host/exchange_operation.h"
#include "src/executor/host/host_operation.h"
#include "src/executor/host/short_program.h"

namespace tutti::executor {

class HostExecutor final : public Executor {
 public:
  explicit HostExecutor(int rank) : rank_(rank) {}

  std::unique_ptr<PreparedPlan> prepare(const plan::PlanSpec& spec,
                                        const plan::ProgramOf& programOf) override;

  /// Ahead of begin(). What follows ends by end().
  void enter(bool isCollective) {
    isCollective_.store(isCollective, std::memory_order_release);
    isRunning_.store(true, std::memory_order_seq_cst);
  }
  /// As HostOperation has it.
  Operation& begin(const HostRank& at, const HostPlans& plans, CollectiveCall&& call,
                   const ShortProgram* stopped = nullptr);
  Operation& begin(const HostRank& at, Exchange&& exchange);
  /// The operation has ended well, or has failed.
  void end(bool well);
  /// In the place of begin() and end(): it has run as a whole.
  void endShort(const ShortProgram& program) {
    operation_.ranShort(program.plan(), program.bytesReceived());
    end(true);
  }
  /// Of the exchange that runs: something is left to do with `peer`.
  bool needs(int peer) const { return exchange_.needs(peer); }
  /// Of the last collective. After it.
  uint64_t bytesReceived() const { return operation_.bytesReceived(); }
  /// The same of its plan; null before the first.
  const plan::PlanSpec* lastSpec() const { return operation_.spec(); }
  /// As HostOperation has it.
  bool combinesHere() const { return operation_.combinesHere(); }

  bool isRunning() override { return isRunning_.load(std::memory_order_seq_cst); }
  std::optional<uint64_t> underWay() const override;
  std::optional<uint64_t> collectivesEnded() const override {
    return collectives_.load(std::memory_order_acquire);
  }
  /// Operations that have ended well.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }

 private:
  const int rank_;
  HostOperation operation_;
  ExchangeOperation exchange_;
  std::atomic<bool> isRunning_{false}, isCollective_{false};
  std::atomic<uint64_t> completed_{0}, collectives_{0};
};

}  // namespace tutti::executor
