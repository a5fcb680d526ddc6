#include "src/tools/common/machine_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <vector>

#include "src/bootstrap/host_facts.h"
#include "src/tools/perf/perf_call.h"

namespace tutti::tools {
namespace {

std::optional<double> machineSeconds() {
  std::ifstream file("/proc/stat");
  return workedSeconds(std::string(std::istreambuf_iterator<char>(file), {}),
                       static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

double ownSeconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// What one rank has seen since it began, in seconds.
struct Seen {
  std::array<char, 40> bootId{};
  double machine = 0, own = 0, passed = 0;
};

}  // namespace

std::optional<double> workedSeconds(const std::string& procStat, double ticksPerSecond) {
  std::istringstream in(procStat);
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softIrq = 0, stolen = 0;
  in >> name >> user >> nice >> system >> idle >> waiting >> irq >> softIrq >> stolen;
  if (!in || name != "cpu") return {};
  return (user + nice + system + stolen) / ticksPerSecond;
}

MachineUse::MachineUse(Communicator& c) : c_(c) {
  c_.barrier();
  begin_ = nowUs();
  machine_ = machineSeconds();
  own_ = ownSeconds();
}

double MachineUse::coresOfOthers() {
  Seen seen{.own = ownSeconds() - own_, .passed = (nowUs() - begin_) * 1e-6};
  bootstrap::bootId().copy(seen.bootId.data(), seen.bootId.size());
  if (const auto now = machineSeconds(); now && machine_) seen.machine = *now - *machine_;
  std::vector<Seen> all(static_cast<size_t>(c_.size()));
  c_.allGather({.send = std::as_bytes(std::span(&seen, 1)),
                .recv = std::as_writable_bytes(std::span(all)),
                .type = DataType::Int8});
  std::map<std::array<char, 40>, Seen> machines;
  for (const Seen& rank : all) {
    Seen& sum = machines[rank.bootId];
    sum.own += rank.own;
    sum.machine = std::max(sum.machine, rank.machine);
    sum.passed = std::max(sum.passed, rank.passed);
  }
  double most = 0;
  for (const auto& [bootId, sum] : machines)
    if (sum.passed > 0) most = std::max(most, (sum.machine - sum.own) / sum.passed);
  return most;
}

std::string busyText(double coresOfOthers, int coresOfMachine) {
  if (coresOfOthers < std::max(0.1, 0.01 * coresOfMachine)) return "";
  char text[80];
  std::snprintf(text, sizeof text, "meanwhile other work took the time of %.1f cores",
                coresOfOthers);
  return text;
}

}  // namespace tutti::tools
