#pragma once

// The tuning table: the constants of the cost model, and the calls for which they are not enough.
// What `tutti tune` measures, and a file keeps. Rank 0 hands out its own, so that all ranks choose
// the same. The defaults are a virtual machine's of 2 cores; of the calls that
// tests/tools/tune/choice.jsonl records on one host, 2 to 8 ranks, what they choose takes 1.01
// times the best in the mean (tests/tools/tune/choice_test.cc).

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/bytes.h"

namespace tutti::topology {

/// A call for which the constants choose badly, and what was measured to be best for it.
struct Preference {
  std::string collective;
  int ranks = 0, hosts = 1;
  uint64_t blockBytes = 0;  ///< of the largest block that it is about: a power of two, from 8 on
  std::string algorithm;    ///< or "mapped" or "staged": whether to ask for mapped buffers
  bool operator==(const Preference&) const = default;
  /// Whether there can be such a call, by whatever names.
  bool isPossible() const;
};

/// Throws InvalidArgument naming `where` it stands where its names are none.
using PreferenceCheck = std::function<void(const Preference&, const std::string& where)>;

struct Tuning {
  double messageMicroseconds = 0.3;      ///< one message, from ready to seen, without data
  double callMicroseconds = 0.4;         ///< what a call that is not short takes beside its plan
  double stepMicroseconds = 0.022;       ///< the executor's own cost of one step
  double copyGigabytesPerSecond = 15;    ///< one rank copying through a slot, in and out
  double reduceGigabytesPerSecond = 30;  ///< one rank folding, per byte of one source
  double mappedGigabytesPerSecond =
      32;                           ///< one rank reading or writing mapped memory, per byte touched
  double attachMicroseconds = 1.8;  ///< one read of another rank's memory, without data
  double attachGigabytesPerSecond = 9;  ///< one rank reading another one's memory
  double entryMicroseconds = 0.09;      ///< exchanging entry records between two ranks
  double yieldMicroseconds = 1.3;  ///< handing a core to the next rank, when ranks outnumber cores
  // Between hosts; the defaults are those of TCP over Ethernet of 10 Gbit/s.
  double networkMicroseconds = 25;     ///< one message, from ready to seen, without data
  double networkGapMicroseconds = 20;  ///< what a message takes of a host's link beside its bytes
  double networkGigabytesPerSecond = 1.15;  ///< of a host's link in each direction, which all ranks
                                            ///< of the host share
  // Between GPUs that do not reach each other, through memory of their host, over PCIe of the
  // fourth generation; not measured. No file has these.
  double hostMemoryMicroseconds = 4;         ///< one message, from ready to seen, without data
  double hostMemoryGigabytesPerSecond = 20;  ///< of a GPU's link to the host in each direction,
                                             ///< which all such messages of the GPU share
  std::vector<Preference> preferences;       ///< at most kMostPreferences
  static constexpr size_t kMostPreferences = 4096;

  base::Bytes serialize() const;
  /// Throws Refused naming the constant that is missing, no number, or none that a machine can
  /// have.
  static Tuning deserialize(const base::Bytes& bytes);

  /// What a tuning file says, in TOML: the constants by their names, and an array of tables
  /// `prefer`, each with collective, ranks, hosts, bytes and algorithm.
  std::string text() const;
  /// Constants that are not there keep their defaults. Throws InvalidArgument naming `where` and
  /// the line of what is no such text, or what `check` throws.
  static Tuning parse(const std::string& text, const std::string& where,
                      const PreferenceCheck& check = {});
  /// The file's. Throws InvalidArgument when it cannot be read.
  static Tuning read(const std::string& path, const PreferenceCheck& check = {});
  bool operator==(const Tuning&) const = default;
};

/// One of the constants: its name in files and messages, and what a machine can plausibly have.
struct Constant {
  const char* name;
  double Tuning::*value;
  double least, most;
  bool allows(double number) const;
};
std::span<const Constant> constants();

}  // namespace tutti::topology
