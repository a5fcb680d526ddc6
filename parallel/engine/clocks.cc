#include "parallel/engine/clocks.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr int kBarriers = 9;

/// What all processes that share a clock read the same of; empty when it cannot be read.
std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t nanosecondsNow() {
  const auto now = Trace::Clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

std::string ClockReadings::text() const {
  std::string all = boot;
  for (const int64_t each : left) all += message(" ", each);
  return all;
}

ClockReadings ClockReadings::parse(const std::string& text) {
  ClockReadings readings;
  size_t at = text.find(' ');
  readings.boot = text.substr(0, at);
  while (at != std::string::npos && at + 1 < text.size()) {
    readings.left.push_back(std::stoll(text.substr(at + 1)));
    at = text.find(' ', at + 1);
  }
  return readings;
}

ClockReadings readClock(MeshCommunicator* all) {
  ClockReadings readings{.boot = bootId(), .left = {}};
  for (int i = 0; i < kBarriers; ++i) {
    if (all != nullptr) all->barrier();
    readings.left.push_back(nanosecondsNow());
  }
  return readings;
}

int64_t nanosecondsAhead(const ClockReadings& own, const ClockReadings& first) {
  if (own.boot == first.boot && !own.boot.empty()) return 0;
  ensure(own.left.size() == first.left.size() && !own.left.empty(), "ranks left ", own.left.size(),
         " and ", first.left.size(), " barriers");
  std::vector<int64_t> differences;
  for (size_t i = 0; i < own.left.size(); ++i) differences.push_back(own.left[i] - first.left[i]);
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

}  // namespace tutti::parallel
