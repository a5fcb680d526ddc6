#pragma once

// The checks of `tutti doctor`: each looks at the facts for one thing and says what it found.

#include <span>
#include <string>
#include <vector>

#include "src/tools/doctor/doctor_facts.h"

namespace tutti::tools {

struct Finding {
  enum class State : uint8_t {
    Good,
    Note,   ///< worth knowing; no problem
    Slow,   ///< works, slower than it could
    Wrong,  ///< something of Tutti will fail
  };
  std::string check;  ///< "open files"
  State state = State::Good;
  std::string measured;
  std::string why;   ///< it matters; empty when all is good
  std::string mend;  ///< a command or what to ask for; empty where nothing helps
  bool problem() const { return state == State::Slow || state == State::Wrong; }
};
const char* toString(Finding::State state);  ///< "good", "note", "slow", "wrong"

/// A word as a shell takes it: in quotes where it would not be one, or not that one.
std::string shellWord(const std::string& word);
/// The command that sets a variable.
std::string exportOf(const std::string& variable, const std::string& value);

/// What all checks find, in the order in which a person should read it.
std::vector<Finding> diagnose(const DoctorFacts& facts);

Finding checkCores(const DoctorFacts& facts);
Finding checkCpuQuota(const DoctorFacts& facts);
Finding checkSharedMemory(const DoctorFacts& facts);
Finding checkSealedMemory(const DoctorFacts& facts);
Finding checkFileSize(const DoctorFacts& facts);
Finding checkAddressSpace(const DoctorFacts& facts);
Finding checkOpenFiles(const DoctorFacts& facts);
Finding checkLockedMemory(const DoctorFacts& facts);
Finding checkProcessDescriptors(const DoctorFacts& facts);
Finding checkPeerDescriptors(const DoctorFacts& facts);
Finding checkClock(const DoctorFacts& facts);
Finding checkGovernor(const DoctorFacts& facts);
Finding checkHugePages(const DoctorFacts& facts);
Finding checkInterface(const DoctorFacts& facts);
Finding checkListening(const DoctorFacts& facts);
Finding checkRdma(const DoctorFacts& facts);
Finding checkUcx(const DoctorFacts& facts);
Finding checkUcxDevices(const DoctorFacts& facts);
Finding checkUcxTransports(const DoctorFacts& facts);
Finding checkCuda(const DoctorFacts& facts);
Finding checkInventory(const DoctorFacts& facts);
Finding checkTransport(const DoctorFacts& facts);
Finding checkTuning(const DoctorFacts& facts);
Finding checkFoundNccl(const DoctorFacts& facts);
Finding checkVariables(const DoctorFacts& facts);

}  // namespace tutti::tools
