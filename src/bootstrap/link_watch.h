#pragma once

// LinkWatch: which links to other hosts are slow, by what the kernel knows of each TCP connection:
// the least round trip of a packet, and how many packets had to be sent again. Links that carry
// data by RDMA alone are seen by the round trips of their control connections.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/wire/address.h"

namespace tutti::bootstrap {

/// A TCP connection of this process.
struct TcpConnection {
  int socket = -1;
  std::string peer;        ///< IP address
  double roundTripMs = 0;  ///< the least of late
  uint64_t packets = 0;    ///< sent with data, those sent again among them
  uint64_t sentAgain = 0;
};
/// All of this process that are established. None where /proc cannot be read.
std::vector<TcpConnection> tcpConnections();
/// Where an IP socket's other end is; empty for other sockets.
std::string peerIp(int socket);

class LinkWatch {
 public:
  /// What a link's loss is judged by at a time.
  static constexpr uint64_t kPacketsJudged = 1000;

  /// `hosts`: other hosts' names by their IP addresses.
  explicit LinkWatch(std::map<std::string, std::string> hosts) : hosts_(std::move(hosts)) {}

  /// A line for each link that is found slow, or to lose packets, for the first time: "slow link to
  /// host n2 (10.0.0.3): ...". A round trip is slow at 50 ms, and at 5 ms already where it is ten
  /// times the median of the others; a link that sends 1 in 200 packets again loses. Connections
  /// with other addresses than the hosts' are left out.
  std::vector<std::string> look(const std::vector<TcpConnection>& connections);

 private:
  struct Counts {
    uint64_t packets = 0, sentAgain = 0;
  };
  std::vector<std::string> slow(const std::vector<TcpConnection>& connections);
  std::vector<std::string> losing(const std::vector<TcpConnection>& connections);
  std::string link(const std::string& ip) const;

  const std::map<std::string, std::string> hosts_;
  std::map<int, Counts> before_;          // by socket, at the last look
  std::map<std::string, Counts> judged_;  // by address, what is judged next
  std::set<std::string> slow_, losing_;   // those that were told
};

}  // namespace tutti::bootstrap
