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

/// From its making on, of ranks that are a process each.
class MachineUse {
 public:
  /// Collective.
  explicit MachineUse(Communicator& c);
  /// Collective: how many cores' time others than these ranks have taken since, on the machine
  /// where that is most; 0 where the kernel does not tell. The same on all ranks. Hosts that are
  /// containers of one machine are one machine. Less than it was where a kernel counts as the
  /// ranks' time what interrupts or the hypervisor took of it.
  double coresOfOthers();

 private:
  Communicator& c_;
  double begin_ = 0;
  std::optional<double> machine_;
  double own_ = 0;
};

/// What to say of that on machines of so many cores; "" of next to nothing, as what always runs.
std::string busyText(double coresOfOthers, int coresOfMachine);

}  // namespace tutti::tools
