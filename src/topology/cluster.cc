#include "src/topology/cluster.h"

#include "src/base/check.h"

namespace tutti::topology {

double Cluster::uplinkGigabytesPerSecond() const {
  return pods.hosts * nics.count * nics.gigabytesPerSecond / pods.oversubscription;
}

std::string Cluster::describe() const {
  std::string text = base::message(name, ": hosts of ", ranksPerHost, " ranks, ",
                                   inside.gigabytesPerSecond, " GB/s each inside");
  if (inside.sharedGigabytesPerSecond > 0)
    text += base::message(" over a bus of ", inside.sharedGigabytesPerSecond, " GB/s");
  text += base::message(", ", nics.count, nics.count == 1 ? " NIC" : " NICs", " of ",
                        nics.gigabytesPerSecond, " GB/s");
  if (pods.hosts > 0)
    text += base::message("; pods of ", pods.hosts, " hosts, oversubscribed ",
                          pods.oversubscription, " to 1");
  return text;
}

}  // namespace tutti::topology
