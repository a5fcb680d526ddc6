#pragma once

// How much of their machines others use while ranks measure something, which would then be measured
// beside other work.

#include <optional>
#include <string>

#include <tutti/communicator.h>

namespace tutti::tools {

/// Seconds that the processors of a machine have worked since it was started: for programs, their
/// kernel's part included, and as a virtual machine without having got the processor. Of the text
/// of /proc/stat (proc(5)); nothing where it is none.
std::optional<double> workedSeconds(const std::string& procStat, double ticksPerSecond);

/// From its making on.
class MachineUse {
 public:
  /// Collective.
  explicit MachineUse(Communicator& c);
  /// Collective: how many cores' time others than these ranks have taken since, on the machine
  /// where that is most; 0 where the kernel does not tell. The same on all ranks. Hosts that are
  /// containers of one machine are one machine.
  double coresOfOthers();

 private:
  Communicator& c_;
  const double begin_;
  const std::optional<double> machine_;
  const double own_;
};

}  // namespace tutti::tools
