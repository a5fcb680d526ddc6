#pragma once

// Every environment variable of the library itself, read once. The table in
// docs/reference/environment.md repeats the comments below, and a test compares the names. The
// variables that say who a rank is (TUTTI_RANK, RANK, SLURM_PROCID, ...) are read by src/bootstrap.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/error.h>
#include <tutti/log.h>

namespace tutti::base {

struct Env {
  /// TUTTI_LOG: least level of the lines written to standard error: debug, info, warning, error,
  /// off.
  std::optional<LogLevel> log = LogLevel::Warning;
  /// TUTTI_TIMEOUT_MS: deadline of one operation, milliseconds.
  long timeoutMs = 600'000;
  /// TUTTI_SETUP_TIMEOUT_MS: deadline of creating, splitting, shrinking, growing or resuming a
  /// communicator, milliseconds.
  long setupTimeoutMs = 120'000;
  /// TUTTI_STRAGGLER_MS: an operation that has waited this long for one rank reports it,
  /// milliseconds.
  long stragglerMs = 5'000;
  /// TUTTI_DETERMINISTIC: 1 makes reductions evaluate the aligned binary tree over ranks.
  bool deterministic = false;
  /// TUTTI_ALGORITHM: forces one algorithm ("ring", between hosts also "ring/2") where it exists;
  /// must be the same on all ranks.
  std::string algorithm;
  /// TUTTI_ALGORITHM_FILE: file with a plan, as `tutti plan --json` writes it, for the calls that
  /// it can serve; the plan must be the same on all ranks.
  std::string algorithmFile;
  /// TUTTI_INTERFACE: name or address of the network interface by which other hosts reach this one.
  std::string interface;
  /// NCCL_SOCKET_IFNAME: which interfaces that may be, as NCCL reads it, where TUTTI_INTERFACE is
  /// not set.
  std::string socketInterfaces;
  /// TUTTI_TRANSPORT: shm, tcp or ucx for all pairs of ranks, or shm+tcp or shm+ucx: shm on one
  /// host, the other between hosts; must be the same on all ranks.
  std::string transport;
  /// TUTTI_ENCRYPTION: on seals what tcp sends between hosts; must be the same on all ranks.
  bool encryption = false;
  /// TUTTI_RECONNECT_MS: how long tcp tries to make a connection again that broke while the other
  /// process lives, milliseconds; 0: not at all.
  long reconnectMs = 2'000;
  /// TUTTI_TCP_STREAMS: connections of tcp between two ranks, 1 to 16; must be the same on all
  /// ranks.
  long tcpStreams = 1;
  /// TUTTI_TRAFFIC_CLASS: of the packets of tcp, 0 to 255: the DSCP is its upper six bits. -1: the
  /// system's.
  long trafficClass = -1;
  /// TUTTI_TUNING: file with the constants of the chooser, as `tutti tune` writes it; rank 0's
  /// counts.
  std::string tuning;
  /// TUTTI_SLOT_BYTES: size of one staging slot between two local ranks, bytes; 0 chooses. At most
  /// 64 MiB.
  size_t slotBytes = 0;
  /// TUTTI_SHM_ATTACH: 0 keeps ranks of one host from reading each other's memory.
  bool shmAttach = true;
  /// TUTTI_GPU_BLOCKS: how many blocks of threads a rank's kernels may have at most on its GPU; 0
  /// chooses. At most 1024.
  long gpuBlocks = 0;
  /// TUTTI_GPU_DIRECT: whether UCX sends long messages from GPUs' memory, and to it, itself: 0
  /// never, 1 always, else between ranks where it says that it can.
  std::optional<bool> gpuDirect;
  /// TUTTI_GPU_COPIES: 1 makes calls on GPUs of one host copies instead of kernels.
  bool gpuCopies = false;
  /// TUTTI_GPU_IPC: 1 hands memory of GPUs to other processes by CUDA's IPC handles also where the
  /// driver has descriptors. Not set: NCCL_CUMEM_ENABLE=0, as NCCL reads it, does the same.
  bool gpuIpc = false;
  /// CUDA_DEVICE_MAX_CONNECTIONS: as CUDA reads it, by how many queues the streams of a process get
  /// to a GPU; one that waits holds up the others of its queue. 1 to 32.
  long gpuQueues = 8;
};

/// All variables, and what is wrong with the first that is malformed; such have their defaults.
struct EnvReading {
  Env env;
  std::optional<Error> malformed;
  /// Each by its name, as text: what it is set to, else the default; empty where that is nothing.
  std::vector<std::pair<std::string, std::string>> values;
};
/// The value of a variable; null where it is not set.
using EnvLookup = std::function<const char*(const char* name)>;
EnvReading readEnv(const EnvLookup& lookup);

/// The process's variables, read at the first call. Throws InvalidArgument naming a malformed one.
const Env& env();
/// The same, but malformed ones have their defaults: for what a rank does to tell others that it
/// has one.
const Env& lenientEnv();
/// Of the process's variables.
const std::vector<std::pair<std::string, std::string>>& envValues();

}  // namespace tutti::base
