#pragma once

// The settings of a communicator, after defaults and environment are applied. A value: whoever
// makes the communicator adds what files say, set-up takes rank 0's tuning over, and after that it
// is constant.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <tutti/communicator.h>

#include "collectives/algorithm_file.h"
#include "src/topology/tuning.h"

namespace tutti::communicator {

inline constexpr int kMostSignals = 65536;

/// Equal on all ranks where marked.
struct Settings {
  int64_t setupTimeoutMs = 0;
  int64_t timeoutMs = 0;
  int64_t stragglerMs = 0;
  bool deterministic = false;  ///< equal
  std::string algorithm;       ///< equal
  /// Or null. Its plan is equal, wherever its file is.
  std::shared_ptr<const collectives::AlgorithmFile> algorithmFile = {};
  std::string transport;    ///< equal
  topology::Tuning tuning;  ///< rank 0's counts
  Device device;
  uint32_t gpuBlocks = 0;         ///< 0: chosen
  bool gpuCopies = false;         ///< of one rank for all
  std::optional<bool> gpuDirect;  ///< not set: where UCX says that it can
  bool encrypts = false;          ///< equal; of tcp, like those below
  std::string preSharedKey = {};  ///< equal
  uint32_t tcpStreams = 1;        ///< equal
  int64_t reconnectMs = 0;
  int trafficClass = -1;
  uint32_t signals = 1;  ///< equal; of one-sided calls, from each rank
  static Settings from(const CommunicatorOptions& options);
};

/// The deadline of set-up that these options and the environment give. Invalid ones give the
/// default.
int64_t setupTimeoutOf(const CommunicatorOptions& options);

/// The constants that TUTTI_TUNING names, or the defaults.
topology::Tuning ownTuning();

/// The plan that `path` names, else TUTTI_ALGORITHM_FILE; or null. Throws InvalidArgument, as
/// AlgorithmFile does.
std::shared_ptr<const collectives::AlgorithmFile> ownAlgorithmFile(const std::string& path = {});

}  // namespace tutti::communicator
