#include "tests/executor/kernel/replays.h"

#include "src/base/check.h"

namespace tutti::tests {
Replays::Replays(DeviceRanks& ranks) : ranks_(ranks) {
  for (int r = 0; r < ranks.size(); ++r) graphs_.push_back(ranks.capture(r));
}

Replays::~Replays() {
  for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
}

std::string Replays::run(const Call& call, Wire wire, uint64_t seed) {
  const auto expected = hostResult(call, seed, ranks_.slotBytes(wire));
  const auto inputs = refillAndLaunch(ranks_, call, graphs_, seed);
  for (int r = 0; r < ranks_.size(); ++r) ranks_.wait(r);
  for (int r = 0; r < ranks_.size(); ++r) {
    if (const auto failed = ranks_.executor(r).failure()) return failed->what();
    if (ranks_.buffer(r).download() != expected[r].bytes)
      return base::message(call.describe(), ": rank ", r, " is wrong, seed ", seed);
  }
  return {};
}

std::string replayMany(const DeviceRanksOptions& options, const Call& call, Wire wire,
                       int replays) {
  DeviceRanks ranks(options);
  ranks.begin(call, wire, 1);
  Replays graphs(ranks);
  for (int i = 0; i < replays; ++i)
    if (const auto wrong = graphs.run(call, wire, 10 + static_cast<uint64_t>(i)); !wrong.empty())
      return wrong;
  // Operations are counted on the device.
  for (int r = 0; r < ranks.size(); ++r)
    if (const uint64_t operations = ranks.executor(r).completed();
        operations != static_cast<uint64_t>(replays))
      return base::message("rank ", r, ": ", operations, " operations instead of ", replays);
  return {};
}

}  // namespace tutti::tests
