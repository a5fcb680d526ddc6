#pragma once

// ncclConfig_t of any version of NCCL, checked, as the few settings that have a meaning here.

#include <string>

#include <tutti-nccl/nccl.h>

namespace tutti::nccl {

struct NcclConfig {
  bool blocking = true;
  std::string name;       ///< for log lines; may be empty
  int maxBlocks = 0;      ///< of a rank's kernels; 0: not said
  bool byCopies = false;  ///< no kernel where there need not be one
};

/// `given` may be null or leave fields undefined: then `inherited` holds; NCCL_COMM_BLOCKING and
/// NCCL_MAX_CTAS go before both. Throws InvalidArgument naming the field that is none of its
/// values, and for a struct that was not begun with NCCL_CONFIG_INITIALIZER.
NcclConfig readConfig(const ncclConfig_t* given, const NcclConfig& inherited = {});

}  // namespace tutti::nccl
