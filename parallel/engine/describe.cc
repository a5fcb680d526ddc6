#include "parallel/engine/describe.h"

#include <algorithm>
#include <cstdio>

namespace tutti::parallel {

namespace {

/// "  master weights   28.00 GB", and nothing where there are no bytes.
std::string line(const std::string& what, size_t bytes, const std::string& more = "") {
  if (bytes == 0) return "";
  std::string text = "  " + what;
  text.resize(std::max<size_t>(text.size() + 1, 32), ' ');
  return text + bytesText(bytes) + more + "\n";
}

std::string calls(const CollectiveCount& count) {
  return message(", ", count.calls, count.calls == 1 ? " call" : " calls");
}

}  // namespace

std::string bytesText(size_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (value < 1e3) return message(bytes, " B");
  if (value < 1e6)
    std::snprintf(text, sizeof(text), "%.1f kB", value / 1e3);
  else if (value < 1e9)
    std::snprintf(text, sizeof(text), "%.1f MB", value / 1e6);
  else
    std::snprintf(text, sizeof(text), "%.2f GB", value / 1e9);
  return text;
}

std::vector<std::pair<const char*, size_t>> kindsOf(const TrainingMemory& memory) {
  const StoreMemory& store = memory.store;
  return {{"weights", store.weights},
          {"master weights", store.masters},
          {"gradients", store.gradientShards},
          {"unreduced gradients", store.gradients},
          {"optimizer", store.optimizer},
          {"staging", store.staging},
          {"saved activations", memory.untilBackward.peak + memory.untilWeights.peak},
          {"between stages", memory.between},
          {"checkpoint in memory", memory.saving},
          {"scratch", memory.scratch.peak}};
}

std::string describe(const TrainingMemory& memory) {
  std::string text = message("holds ", bytesText(memory.total()), "\n");
  for (const auto& [kind, bytes] : kindsOf(memory)) text += line(kind, bytes);
  return text;
}

std::string describe(const Collectives& collectives) {
  std::string text = collectives.empty() ? "sends nothing\n" : "sends in a step\n";
  for (const auto& [axes, count] : collectives) {
    const std::string along = " along " + axes.describe();
    text += line("AllReduce" + along, count.allReduce.bytes, calls(count.allReduce));
    text += line("ReduceScatter" + along, count.reduceScatter.bytes, calls(count.reduceScatter));
    text += line("AllGather" + along, count.allGather.bytes, calls(count.allGather));
    text += line("AllToAll" + along, count.allToAll.bytes, calls(count.allToAll));
    text += line("messages" + along, count.sent.bytes, calls(count.sent));
  }
  return text;
}

std::string describe(const CollectiveCounters& counters) {
  std::string text;
  const auto add = [&](const CollectiveCount& count, const char* name) {
    if (count.calls == 0) return;
    const bool one = count.calls == 1;
    text += message(text.empty() ? "" : ", ", count.calls, " ", name, one ? "" : "s", " of ",
                    count.bytes, one ? " bytes" : " bytes in all");
  };
  add(counters.allReduce, "AllReduce");
  add(counters.reduceScatter, "ReduceScatter");
  add(counters.allGather, "AllGather");
  add(counters.allToAll, "AllToAll");
  add(counters.sent, "message");
  return text.empty() ? "nothing" : text;
}

}  // namespace tutti::parallel
