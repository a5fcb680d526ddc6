#pragma once

// ncclConfig_t of any version of NCCL, checked, as the few settings that have a meaning here.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <tutti-nccl/nccl.h>

namespace tutti::nccl {

struct NcclConfig {
  bool blocking = true;
  std::string name;       ///< for log lines; may be empty
  int maxBlocks = 0;      ///< of a rank's kernels; 0: not said
  bool byCopies = false;  ///< no kernel where there need not be one
  int policyBlocks = 0;   ///< as NCCL_CTA_POLICY_EFFICIENCY has it, of each call; 0: all
  int rmaContexts = 1;    ///< of one-sided calls
  int rmaSignals = 1;     ///< of each context
};

/// `given` may be null or leave fields undefined: then `inherited` holds; NCCL_COMM_BLOCKING and
/// NCCL_MAX_CTAS go before both. Throws InvalidArgument naming the field that is none of its
/// values, and for a struct that was not begun with NCCL_CONFIG_INITIALIZER.
NcclConfig readConfig(const ncclConfig_t* given, const NcclConfig& inherited = {});

/// What may be said of one call, checked: ncclCollConfig_t.
struct NcclCallConfig {
  std::string algorithm;            ///< in Tutti's words; empty: not said
  bool forced = true;               ///< an algorithm that does not exist for the call is an error
  int maxBlocks = 0;                ///< 0: not said
  std::optional<int> policyBlocks;  ///< not set: the communicator's; 0: all
  uint64_t tag = 0;
  cudaEvent_t launched = nullptr;
};

/// Null: nothing is said. Throws as readConfig().
NcclCallConfig readCallConfig(const ncclCollConfig_t* given);

void copyKnownBytes(const void* given, void* known, size_t bytes, size_t headerBytes,
                    unsigned magic, const char* initializer);
/// Copies the part of a struct of any version that both its caller and this library know over
/// `known`, which has the initializer's values. Throws InvalidArgument for one that was not begun
/// with `initializer`.
template <class Struct>
void copyKnown(const Struct* given, Struct& known, const char* initializer) {
  copyKnownBytes(given, &known, sizeof known, offsetof(Struct, magic) + 2 * sizeof known.magic,
                 known.magic, initializer);
}

/// Whether a config of this process was of a version that has ncclTimeout.
bool callersKnowTimeout();

}  // namespace tutti::nccl
