#pragma once

// NetworkWatch: whether the network of the data still leads to the peer that an operation waits
// for. The control plane finds out about its own network; where the data has another one, TCP
// repeats for minutes what does not get through.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/connection.h"

namespace tutti::communicator {

class NetworkWatch {
 public:
  /// What an operation waits for; when it has waited for a second, and nothing has come meanwhile,
  /// the peer's host is asked, and asked again while it waits on. A stopped process counts as
  /// there: its kernel answers.
  struct Wait {
    uint64_t operation = 0;
    int peer = -1;  ///< -1: for nobody
    uint64_t bytesReceived = 0;
    bool operator==(const Wait&) const = default;
  };
  /// To be called every few hundred milliseconds at least. Once nothing has answered for three
  /// seconds: where it was asked, "10.0.0.2:40123".
  std::optional<std::string> look(transports::Endpoint& endpoint, const Wait& wait, int64_t nowNs);

 private:
  Wait wait_;
  int64_t sinceNs_ = 0;                                     // of this wait
  int64_t nextNs_ = 0;                                      // visit
  int64_t askedNs_ = 0;                                     // the first of those that are here
  std::vector<std::unique_ptr<transports::Visit>> visits_;  // nobody has answered them
};

}  // namespace tutti::communicator
