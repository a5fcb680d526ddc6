#pragma once

// NetworkWatch: whether the network of the data still leads to the peers that an operation, on the
// host or on a GPU, waits for. The control plane finds out about its own network; where the data
// has another one, TCP repeats for minutes what does not get through.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/connection.h"

namespace tutti::communicator {

class NetworkWatch {
 public:
  struct Cut {
    int peer;
    std::string where;  ///< "10.0.0.2:40123"
  };
  NetworkWatch() = default;
  /// A network that is away for `reconnectMs` is no cut yet, where that is longer than 3 s.
  explicit NetworkWatch(int64_t reconnectMs);

  /// To be called every few hundred milliseconds at least, with the peers that the operation waits
  /// for just now. Once an operation has waited for one for a second, that one's host is asked, and
  /// asked again while it is waited for, also in turns with others. A cut is where one of the
  /// places that its data goes by has not answered for three seconds, or `reconnectMs`, or has
  /// answered that nobody is there, or, where these are not known, none of all has. (A process that
  /// is there no more the control plane has named by then.) A stopped process counts as there, for
  /// its kernel answers; it is not probed again, as its queue of probes is short.
  std::optional<Cut> look(transports::Endpoint& endpoint, uint64_t operation,
                          std::span<const int> peers, int64_t nowNs);

 private:
  struct Asked {
    int64_t seenNs = 0;    // it was waited for
    int64_t nextNs = 0;    // probe
    int64_t firstNs = 0;   // of those that are here
    bool isHeard = false;  // a kernel, and no process yet
    std::vector<std::unique_ptr<transports::ReachabilityProbe>> probes;  // that it has not answered
  };
  std::optional<std::string> ask(transports::Endpoint& endpoint, int peer, Asked& asked,
                                 int64_t nowNs);

  static constexpr int64_t kLeastCutNs = 3'000'000'000;
  int64_t cutNs_ = kLeastCutNs;
  uint64_t operation_ = 0;
  std::map<int, Asked> asked_;  // by peer
};

}  // namespace tutti::communicator
