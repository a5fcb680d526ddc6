#pragma once

// The functions of libibverbs that the inventory calls, found when the program runs.

#include <infiniband/verbs.h>

#include <string>

namespace tutti::topology {

struct Verbs {
  std::string missing;  ///< why there is no library; then no function is set
  std::string version;  ///< "1.14.44.0"

  struct ibv_device** (*getDeviceList)(int* count) = nullptr;
  void (*freeDeviceList)(struct ibv_device** list) = nullptr;
  const char* (*getDeviceName)(struct ibv_device* device) = nullptr;
  struct ibv_context* (*openDevice)(struct ibv_device* device) = nullptr;
  int (*closeDevice)(struct ibv_context* context) = nullptr;
  int (*queryDevice)(struct ibv_context* context, struct ibv_device_attr* attributes) = nullptr;
  /// Fills the fields up to and with `flags`.
  int (*queryPort)(struct ibv_context* context, uint8_t port,
                   struct _compat_ibv_port_attr* attributes) = nullptr;
  /// Entries of all ports. Null in libraries older than 2020.
  ssize_t (*queryGidTable)(struct ibv_context* context, struct ibv_gid_entry* entries, size_t most,
                           uint32_t flags, size_t entryBytes) = nullptr;
};

/// From libibverbs.so.1.
Verbs loadVerbs();

/// What `width` lanes of `speed` carry, both as ibv_port_attr has them; 0 for values that are not
/// known.
double gigabitsPerSecond(unsigned width, unsigned speed);

}  // namespace tutti::topology
