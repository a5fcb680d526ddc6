#include "src/executor/host/host_executor.h"

#include <utility>

namespace tutti::executor {

std::unique_ptr<PreparedPlan> HostExecutor::prepare(const plan::PlanSpec& spec,
                                                    const plan::ProgramOf& programOf) {
  return std::make_unique<HostPlan>(spec, programOf(rank_), rank_);
}

Operation& HostExecutor::begin(const HostRank& at, const HostPlans& plans, CollectiveCall&& call,
                               const ShortProgram* stopped) {
  operation_.begin(at, plans, std::move(call), stopped);
  return operation_;
}

Operation& HostExecutor::begin(const HostRank& at, Exchange&& exchange) {
  exchange_.begin(at, std::move(exchange));
  return exchange_;
}

namespace {

/// By the one thread that writes it.
void countOneMore(std::atomic<uint64_t>& count) {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

void HostExecutor::end(bool well) {
  if (well && isCollective_.load(std::memory_order_relaxed)) countOneMore(collectives_);
  isRunning_.store(false, std::memory_order_release);
  if (well) countOneMore(completed_);
}

std::optional<uint64_t> HostExecutor::underWay() const {
  const uint64_t ended = completed();
  const bool runs =
      isRunning_.load(std::memory_order_acquire) && isCollective_.load(std::memory_order_acquire);
  return runs ? std::optional(ended) : std::nullopt;
}

}  // namespace tutti::executor
