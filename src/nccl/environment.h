#pragma once

// NCCL's environment variables, other than those about logging (debug_log.h).
// docs/reference/nccl.md has the table.

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::nccl {

struct Environment {
  /// NCCL_COMM_BLOCKING: 0 or 1, instead of what a config says.
  std::optional<bool> blocking;
  /// NCCL_COMM_ID: host:port where rank 0 listens, instead of an id of ncclGetUniqueId()'s own.
  std::string rendezvousAddress;
  /// NCCL_ALGO, where it names one algorithm that Tutti has too, in Tutti's words. TUTTI_ALGORITHM
  /// goes before it.
  std::string algorithm;
  /// NCCL_SHM_DISABLE: "tcp", by which the ranks of a host then reach each other too.
  /// TUTTI_TRANSPORT goes before it.
  std::string transport;
  /// NCCL_MAX_CTAS: a number from 1 on, instead of what a config says. TUTTI_GPU_BLOCKS goes before
  /// it.
  std::optional<int> maxBlocks;
};

/// Read at the first call.
const Environment& environment();

/// Tutti's word for an algorithm that NCCL has too, whatever its case; else "".
std::string algorithmNamed(const std::string& name);

/// All variables that have a meaning here, Tutti's and NCCL's, with their values as text. Those of
/// Tutti have their defaults where they are not set.
std::vector<std::pair<std::string, std::string>> settings();

/// Once in a process, when its first communicator is made: the version, and which variables have a
/// meaning here and which have none.
void announce();

}  // namespace tutti::nccl
