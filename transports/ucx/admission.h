#pragma once

// Who may connect to a worker's ports. UCX proves nothing and believes whatever comes to its ports
// of TCP, a write to any address of the process among it. So the kernel drops there what comes from
// other addresses than those of the job's hosts, before UCX sees a byte. A connection that was
// accepted inherits the filter of its time, which its peer passes.

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "transports/ucx/source_filter.h"

namespace tutti::transports::ucx {

struct TcpPlace {
  SourceAddress address{};
  in_port_t port = 0;  ///< as the network orders its bytes
  bool operator==(const TcpPlace&) const = default;
};

/// A listening socket of TCP.
struct Listener {
  int socket = -1;
  uint64_t cookie = 0;  ///< the kernel's number, which no other socket gets
  TcpPlace place;
};

/// Nothing of what does not listen, or is not of TCP.
std::optional<Listener> listenerOf(int socket);
/// Of this process. Throws System where /proc cannot be read.
std::vector<Listener> tcpListeners();

/// What listens now, and did not `before`, at a port that `worker` tells of: UCX's address of one
/// that was made in between. What else is new is the program's own. Throws System where there is
/// that alone, because it may be UCX's as well.
std::vector<Listener> listenersOf(const base::Bytes& worker, const std::vector<Listener>& before);

class Admission {
 public:
  Admission() = default;
  /// Nobody may connect to these any more. Throws System.
  explicit Admission(std::vector<Listener> listeners);
  /// Who has connected before: UCX reads it when it makes progress next, and finds its end.
  void cutOff() const;
  /// From now on these may connect, too. Throws System.
  void admit(std::span<const SourceAddress> addresses);

 private:
  void attach() const;

  std::vector<Listener> listeners_;
  std::set<SourceAddress> admitted_;
};

}  // namespace tutti::transports::ucx
