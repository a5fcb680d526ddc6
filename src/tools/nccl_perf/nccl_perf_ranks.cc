#include "src/tools/nccl_perf/nccl_perf_ranks.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include <tutti/launch.h>

#include "src/tools/common/common_id.h"
#include "src/tools/common/device_option.h"

namespace tutti::tools {
namespace {

/// What the threads of a process have in common: the worst result, and the first failure.
class Outcome {
 public:
  void returned(int code) {
    const std::lock_guard lock(mutex_);
    code_ = std::max(code_, code);
  }
  /// To be called while an exception is handled.
  void failed() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    stop_.request_stop();
  }
  std::stop_token stop() const { return stop_.get_token(); }
  int take() const {
    if (failure_) std::rethrow_exception(failure_);
    return code_;
  }

 private:
  std::mutex mutex_;
  std::stop_source stop_;
  std::exception_ptr failure_;
  int code_ = 0;
};

/// A rank that ends early must not leave the others of its process waiting.
void runRank(Communicator& c, const std::function<int(Communicator&)>& body, Outcome& outcome) {
  try {
    outcome.returned(body(c));
  } catch (...) {
    outcome.failed();
    c.abort();
  }
}

/// One thread for each index below `count`, and waits for them.
void onThreads(int count, Outcome& outcome, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          outcome.failed();
        }
      });
  } catch (...) {  // no more threads: those that there are wait for the others
    outcome.failed();
  }
}

}  // namespace

int onRanks(const RanksHere& here, const std::function<int(Communicator&)>& body) {
  Outcome outcome;
  const auto launched = launchedRank();
  if (!here.join && (!launched || launched->size == 1)) {
    CommunicatorOptions options{.timeout = here.timeout};
    for (int i = 0; i < here.count; ++i) options.devices.push_back(deviceFor(here.device, i));
    std::vector<Communicator> ranks = Communicator::createLocal(here.count, options);
    onThreads(here.count, outcome,
              [&](int i) { runRank(ranks[static_cast<size_t>(i)], body, outcome); });
    return outcome.take();
  }
  const int first = launched ? launched->rank * here.count : 0;
  Communicator processes =
      Communicator::create({.timeout = here.timeout, .device = deviceFor(here.device, first)});
  if (here.count == 1) return body(processes);
  const UniqueId id = commonId(processes);
  onThreads(here.count, outcome, [&](int i) {
    Communicator c = Communicator::create({.id = id,
                                           .rank = processes.rank() * here.count + i,
                                           .size = processes.size() * here.count,
                                           .timeout = here.timeout,
                                           .device = deviceFor(here.device, first + i),
                                           .stop = outcome.stop()});
    runRank(c, body, outcome);
  });
  return outcome.take();
}

}  // namespace tutti::tools
