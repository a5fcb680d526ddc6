#pragma once

// What the emulation reads from its environment, once.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::emulation {

/// Two devices, by their places in the machine, that do not reach each other's memory, or whose
/// writes there arrive wrong.
struct PeerRule {
  int first = 0, second = 0;
  bool lies = false;
};

struct Environment {
  /// TUTTI_EMULATION_SEED: 0 runs threads in order and lands asynchronous copies as late as it can;
  /// any other number is a seed of a random order, and of random times.
  uint64_t seed = 0;
  /// TUTTI_EMULATION_WORKERS: OS threads of each launch. 2.
  int workers = 2;
  /// TUTTI_EMULATION_TIMEOUT: seconds that all threads may poll without any progress. 30.
  int timeoutSeconds = 30;
  /// TUTTI_EMULATION_STACK: KiB of stack of a CUDA thread. 64, with a sanitizer 256.
  size_t stackBytes = 0;
  /// TUTTI_EMULATION_DEVICES: 0 to 16. 4.
  int devices = 4;
  /// TUTTI_EMULATION_VISIBLE_DEVICES: those of them that the process has, in this order, as
  /// CUDA_VISIBLE_DEVICES has it: numbers between commas, up to the first of no device. All.
  /// With TUTTI_EMULATION_CUDA_VISIBLE_DEVICES=1, without it CUDA's own variable counts. 0.
  std::vector<int> visible;
  /// TUTTI_EMULATION_PEERS: "0-1:none,2-3:lies". Nothing: all are joined.
  std::vector<PeerRule> peers;
  /// TUTTI_EMULATION_PROCESSORS: multiprocessors of each device. 4.
  int processors = 4;
  /// TUTTI_EMULATION_MEMORY: MiB of each device. 2048.
  size_t memoryBytes = 0;
  /// TUTTI_EMULATION_LAZY_LOADING: 1 makes the first use of a kernel on a device wait for all of
  /// the device's work, as CUDA may; 2 makes a launch of a kernel that nothing has loaded there an
  /// error. 0.
  bool isLoadingLazy = false, isLateLoadingWrong = false;
  /// TUTTI_EMULATION_LOCKED_WAITS: 1 makes calls that wait for work unasked, to free memory, to
  /// load a kernel late or to copy pageable memory, hold up the calls of all other threads
  /// meanwhile, as CUDA does. 0.
  bool isWaitingLocked = false;
  /// CUDA_DEVICE_MAX_CONNECTIONS: hardware queues that the streams of a device share, 1 to 32; what
  /// waits holds up all that is behind it in its queue. 8.
  uint64_t connections = 8;
  /// TUTTI_EMULATION_PENDING: as much work a stream takes before whoever adds more waits. 0: any.
  uint64_t pending = 0;
};

constexpr int kMaxDevices = 16;

const Environment& environment();

}  // namespace tutti::emulation
