#include "collectives/bounds.h"

#include <queue>

namespace tutti::collectives {
namespace {

using topology::Cluster;

/// The postal model: when the last of `count` places is told that one knew, if `senders` in a place
/// send at the same time. `step` between two messages of a sender, `latency` on the way.
double toldMicroseconds(int count, int senders, double step, double latency) {
  struct Message {
    double arrives;
    double copies;
    auto operator<=>(const Message&) const = default;
  };
  std::priority_queue<Message, std::vector<Message>, std::greater<>> messages;
  messages.push({step + latency, static_cast<double>(senders)});
  double told = 1, time = 0;
  while (told < count) {
    const Message message = messages.top();
    messages.pop();
    time = message.arrives;
    told += message.copies;
    messages.push({time + step, message.copies});
    messages.push({time + 2 * step + latency, message.copies * senders});
  }
  return time;
}

double latencyBound(int ranks, const Cluster& cluster) {
  if (ranks == 1) return 0;
  const int hosts = cluster.hosts(ranks);
  const double step = cluster.work.stepMicroseconds;
  double least = cluster.inside.microseconds;
  if (cluster.ranksPerHost == 1) least = cluster.nics.microseconds;
  if (hosts > 1) least = std::min(least, cluster.nics.microseconds);
  double told = toldMicroseconds(ranks, 1, step, least);
  if (hosts > 1)
    told = std::max(told,
                    toldMicroseconds(hosts, cluster.ranksPerHost, step, cluster.nics.microseconds));
  return told + step;  // the last message is taken
}

/// Bytes that one direction of a group's links carries, of `ranks` ranks in groups of `group`.
double crossing(Collective collective, int ranks, int group, double block) {
  const int groups = (ranks + group - 1) / group;
  if (groups == 1) return 0;
  const double others = ranks - group;
  switch (collective) {
    case Collective::AllReduce: return 2.0 * (groups - 1) / groups * block;
    case Collective::AllGather:
    case Collective::Gather:
    case Collective::ReduceScatter:
    case Collective::Scatter: return others * block;
    case Collective::AllToAll: return group * others * block;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Scan: return block;
    case Collective::Barrier: break;
  }
  return 0;
}

double bandwidthBound(Collective collective, int ranks, double block, const Cluster& cluster) {
  const auto needed = [&](int group, double gigabytesPerSecond) {
    return crossing(collective, ranks, group, block) / (gigabytesPerSecond * 1e3);
  };
  const bool several = cluster.hosts(ranks) > 1;
  const double port = cluster.ranksPerHost > 1 ? cluster.inside.gigabytesPerSecond : 0;
  const double nic = several ? cluster.nics.gigabytesPerSecond : 0;
  double most = needed(1, port + nic);
  if (several)
    most = std::max(
        most, needed(cluster.ranksPerHost, cluster.nics.count * cluster.nics.gigabytesPerSecond));
  if (cluster.podCount(ranks) > 1)
    most = std::max(most, needed(cluster.ranksTogether(), cluster.uplinkGigabytesPerSecond()));
  return most;
}

}  // namespace

Bounds boundsOf(Collective collective, int ranks, uint64_t blockBytes, const Cluster& cluster) {
  if (ranks == 1) return {};
  return {.latencyMicroseconds = latencyBound(ranks, cluster),
          .bandwidthMicroseconds =
              bandwidthBound(collective, ranks, static_cast<double>(blockBytes), cluster)};
}

}  // namespace tutti::collectives
