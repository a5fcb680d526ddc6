#pragma once

// Hosts of a test: network namespaces with a name and an address each, all plugged into one switch.
// They are held by processes, so that nothing is left behind however the test ends. Needs iproute2,
// and root (or CAP_SYS_ADMIN and CAP_NET_ADMIN, and in a chroot CAP_SYS_CHROOT) or a kernel that
// lets its users have namespaces of users, which none does in a chroot.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/child_processes.h"
#include "tests/support/delayed_link.h"

namespace tutti::tests {

/// Which transport joins hosts in tests of this label: what TUTTI_TRANSPORT names, else "tcp".
std::string networkTransportName();

class NetworkHosts {
 public:
  /// Why there can be none here; nothing when there can. Tests skip with it.
  static std::optional<std::string> unavailable();
  /// Also why nothing can be disturbed: netem is no part of every kernel.
  static std::optional<std::string> netemUnavailable();

  /// Of each host's link.
  struct Link {
    std::string rate = {};  ///< limits what the host sends, by a token bucket, as tc writes it:
                            ///< "1gbit"; empty: nothing
    int mtu = 1500;
    /// What the host sends goes at `bytesPerSecond` through a long cable, in the place of `rate`.
    std::optional<DelayedLink> delayed = {};
  };
  /// Throws Error naming the command that failed.
  NetworkHosts(int hosts, const Link& link);
  explicit NetworkHosts(int hosts) : NetworkHosts(hosts, Link{}) {}

  /// Moves this process there, and to the folder "/"; before it has threads.
  void enter(int host) const;
  std::string address(int host) const;  ///< "10.77.0.1" for host 0
  std::string name(int host) const;     ///< "n0" for host 0
  void unplug(int host) const;          ///< takes the cable out
  void plug(int host) const;            ///< puts it in again
  /// A second network of two hosts, through the first: an interface kTunnel with an address each.
  void addTunnel() const;
  std::string tunnelAddress(int host) const;  ///< "10.78.0.1" for host 0
  void cutTunnel() const;                     ///< what goes into it gets lost
  /// Disturbs what the host sends, as tc's netem writes it: {"loss", "1%"}. Instead of its rate.
  void disturb(int host, const std::vector<std::string>& netem) const;
  /// How many packets were lost so far to what disturbs the host.
  int64_t lostPackets(int host) const;
  /// A command on a host. Returns what it has printed.
  std::string run(int host, const std::vector<std::string>& command) const;

  static constexpr const char* kInterface = "eth0";  ///< of every host
  static constexpr const char* kTunnel = "tunnel";
  static constexpr int kBurst = 40960;  ///< of token buckets, bytes: at most 1% of 4 MiB

 private:
  std::string port(int host) const;  // of the switch
  std::string runIn(int process, const std::vector<std::string>& command) const;
  void plugIn(int host, const Link& link);
  void limit(int host, const Link& link) const;
  void startHolder(const std::string& name);

  ChildProcesses holders_;  // of the hosts, and last of the switch
  ChildProcesses cables_;   // those that are long
  int hosts_;
};

}  // namespace tutti::tests
