#pragma once

// Clusters to simulate, of the kinds that the tool's files describe.

#include <vector>

#include "src/topology/cluster.h"

namespace tutti::collectives::test {

inline topology::Cluster railCluster() {
  return {.name = "rails",
          .ranksPerHost = 8,
          .inside = {.microseconds = 1.5, .gigabytesPerSecond = 400},
          .nics = {.count = 8, .microseconds = 4, .gigabytesPerSecond = 45},
          .work = {.stepMicroseconds = 0.3,
                   .copyGigabytesPerSecond = 1300,
                   .reduceGigabytesPerSecond = 1900},
          .messageBytes = 4 << 20};
}

/// All ranks of a host share one NIC, and two a bus.
inline topology::Cluster sharedCluster() {
  topology::Cluster cluster = railCluster();
  cluster.name = "shared";
  cluster.nics.count = 1;
  cluster.inside.sharedGigabytesPerSecond = 700;
  return cluster;
}

/// Four hosts to a pod, whose uplinks are a third of what they should be.
inline topology::Cluster podCluster() {
  topology::Cluster cluster = railCluster();
  cluster.name = "pods";
  cluster.nics.count = 4;
  cluster.pods = {.hosts = 4, .microseconds = 1.25, .oversubscription = 3};
  return cluster;
}

inline std::vector<topology::Cluster> clusters() {
  return {railCluster(), sharedCluster(), podCluster()};
}

}  // namespace tutti::collectives::test
