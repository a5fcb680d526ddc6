#include "src/communicator/links.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/communicator/world.h"

namespace tutti::communicator {

RankLinks::RankLinks(const Membership& who, const Settings& settings)
    : who_(who), settings_(settings), networkName_(networkTransport(settings, who.control())) {
  topology_.ranks = who.size();
  topology_.cores = who.info(who.rank()).cores;
  std::map<std::string, int> hosts;
  for (int rank = 0; rank < who.size(); ++rank)
    topology_.hostOf.push_back(
        hosts.try_emplace(who.info(rank).bootId, static_cast<int>(hosts.size())).first->second);
  ranksPerHost_ = topology_.ranksPerHost();
  visited_ = ranksToProbe(topology_, who.rank());
}

std::shared_ptr<Network> RankLinks::network() const {
  try {
    return who_.world()->network(
        networkName_, LocalRank::of(who_.rank(), topology_, settings_.device), settings_);
  } catch (const Error& e) {
    base::fail(e.code(), who_.self(), ": ", e.what());
  }
}

Error RankLinks::cut(const NetworkWatch::Cut& cut, const std::string& during) const {
  return Error(
      ErrorCode::PeerLost,
      base::message(who_.self(), " and ", who_.name(cut.peer),
                    " do not reach each other any more: the latter has not answered at ", cut.where,
                    " for seconds", endpoint_->ways(cut.peer), "; noticed during ", during));
}

void RankLinks::limitCores(int cores) { topology_.cores = std::min(topology_.cores, cores); }

void RankLinks::use(std::unique_ptr<transports::Endpoint> endpoint) {
  topology_.slotBytes = endpoint->layout().slotBytes;
  topology_.channels = endpoint->layout().channels;
  endpoint_ = std::move(endpoint);
}

void RankLinks::attach() {
  attached_ = true;
  topology_.attached = topology_.hosts() == 1;
}

std::vector<int> ranksOfHost(const topology::Topology& topology, int host) {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology.ranks; ++rank)
    if (topology.hostOf[rank] == host) ranks.push_back(rank);
  return ranks;
}

std::vector<int> ranksToProbe(const topology::Topology& topology, int rank) {
  const int hosts = topology.hosts(), host = topology.hostOf[rank];
  const std::vector<int> here = ranksOfHost(topology, host);
  const auto place = static_cast<size_t>(std::ranges::find(here, rank) - here.begin());
  std::set<int> others;
  for (int distance = 1; distance < hosts; distance += 1 + distance / 8)
    for (const int other : {host + distance, host + hosts - distance}) others.insert(other % hosts);
  std::vector<int> ranks;
  for (const int other : others) {
    const std::vector<int> there = ranksOfHost(topology, other);
    for (size_t at = place % there.size(); at < there.size(); at += here.size())
      ranks.push_back(there[at]);
  }
  return ranks;
}

}  // namespace tutti::communicator
