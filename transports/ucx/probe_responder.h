#pragma once

// Where the address of a worker leads, found out by plain TCP: UCX 1.13 ends a process that answers
// one which it cannot reach. A worker whose devices all have addresses of IPv4 listens there, on
// ports of its own, and tells whoever comes a random number, by which a prober knows it.

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "transports/connection.h"
#include "transports/ucx/admission.h"

namespace tutti::transports::ucx {

struct ProbeSocket {
  uint32_t address = 0;  ///< of IPv4, as the network orders its bytes
  uint16_t port = 0;
};

struct ProbeAddress {
  std::vector<ProbeSocket> places;  ///< none: nobody can ask
  uint64_t number = 0;
};

class ProbeResponder {
 public:
  ProbeResponder() = default;
  /// Listens at these addresses of this host; at none where UCX_TCP_PORT_RANGE is set, because
  /// other ports than those may be closed, and those are UCX's. There is no place where a port
  /// cannot be had.
  explicit ProbeResponder(const std::vector<uint32_t>& addresses);

  const ProbeAddress& address() const { return address_; }
  /// Adds its own to those of a worker, for who may connect.
  void addListeners(std::vector<Listener>& all) const;
  /// Adds what shall be waited for before answer(); nothing once after an answer that failed.
  void listTo(std::vector<pollfd>& waiting);
  /// All who have come. Does not wait.
  void answer() noexcept;

 private:
  ProbeAddress address_;
  std::vector<base::FileDescriptor> listeners_;
  bool isShort_ = false;  // of descriptors: who has come waits
};

/// Of the worker that has told `where`; asks at these of its places at once. Data goes by a device
/// where connections of this process to it have carried 256 KiB, or wait for it to acknowledge
/// something, and be it that they are being made. Throws System when this host has no descriptor or
/// no port left for it.
std::unique_ptr<ReachabilityProbe> probeAddress(const ProbeAddress& where,
                                                ReachabilityProbe::Scope places);

}  // namespace tutti::transports::ucx
