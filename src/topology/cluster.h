#pragma once

// Hosts of a kind that need not exist: what joins the ranks of a simulated cluster, as a value. All
// hosts are alike, ranks fill them in order, and the last one may be partly empty. Every link has
// two directions that know nothing of each other.

#include <cstdint>
#include <string>

namespace tutti::topology {

struct Cluster {
  /// Between two ranks of a host: each has a port to a switch.
  struct Inside {
    double microseconds = 1;              ///< one message, without data
    double gigabytesPerSecond = 1;        ///< of a rank's port
    double sharedGigabytesPerSecond = 0;  ///< of a bus that all of them share; 0: there is none
  };
  /// Between hosts: equal numbers of neighbouring ranks share a NIC.
  struct Nics {
    int count = 1;                  ///< of a host; divides its ranks
    double microseconds = 1;        ///< one message to another host, without data
    double gigabytesPerSecond = 1;  ///< of each NIC
  };
  /// Neighbouring hosts under one leaf switch; what goes elsewhere shares its uplinks.
  struct Pods {
    int hosts = 0;                ///< of each; 0: all hosts are under one switch
    double microseconds = 0;      ///< what a message to another pod takes longer
    double oversubscription = 1;  ///< bandwidth of all NICs of a pod over that of its uplinks
  };
  /// What a rank does itself.
  struct Work {
    double stepMicroseconds = 1;  ///< for each message that it sends or takes
    double copyGigabytesPerSecond = 1;
    double reduceGigabytesPerSecond = 1;  ///< per byte of one source
    double teraflops = 0;  ///< of bfloat16 matrix products, for whoever computes; 0: not said
  };

  std::string name;
  int ranksPerHost = 1;
  Inside inside;
  Nics nics;
  Pods pods;
  Work work;
  uint64_t messageBytes = 65536;  ///< the most that one message carries

  int hostOf(int rank) const { return rank / ranksPerHost; }
  int podOf(int rank) const { return pods.hosts > 0 ? hostOf(rank) / pods.hosts : 0; }
  int ranksPerNic() const { return ranksPerHost / nics.count; }
  int hosts(int ranks) const { return hostOf(ranks - 1) + 1; }
  int podCount(int ranks) const { return podOf(ranks - 1) + 1; }
  /// Neighbours who may share a link: those of a pod, or of a host.
  int ranksTogether() const { return ranksPerHost * (pods.hosts > 0 ? pods.hosts : 1); }
  double uplinkGigabytesPerSecond() const;  ///< of a pod
  /// "h100-8: hosts of 8 ranks, 450 GB/s inside; 8 NICs of 50 GB/s"
  std::string describe() const;
};

}  // namespace tutti::topology
