#include "src/topology/topology.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::topology {

int Topology::hosts() const { return hostOf.empty() ? 1 : 1 + std::ranges::max(hostOf); }

int Topology::ranksPerHost() const {
  if (hostOf.empty()) return ranks;
  std::vector<int> count(static_cast<size_t>(hosts()), 0);
  for (int host : hostOf) ++count[static_cast<size_t>(host)];
  return std::ranges::max(count);
}

bool Topology::areApart(int rank, int other) const {
  return std::ranges::binary_search(apart, std::pair(std::min(rank, other), std::max(rank, other)));
}

std::string Topology::describe() const {
  std::string text = base::message(ranks, ranks == 1 ? " rank on " : " ranks on ", hosts(),
                                   hosts() == 1 ? " host, " : " hosts, ", cores,
                                   cores == 1 ? " core" : " cores", hosts() == 1 ? "" : " each");
  text += base::message(", slots of ", slotBytes, " bytes");
  if (hosts() > 1) text += base::message(" in ", channels, " channels");
  if (attached) text += ", attached to each other's memory";
  if (oversubscribed()) text += ", oversubscribed";
  if (!apart.empty())
    text += base::message(", ", apart.size(), apart.size() == 1 ? " pair" : " pairs",
                          " of ranks through memory of the host");
  if (hosts() == 1) return text;
  for (size_t rank = 0; rank < hostOf.size(); ++rank)
    text += base::message(rank == 0 ? "; host of each rank: " : " ", hostOf[rank]);
  return text;
}

}  // namespace tutti::topology
