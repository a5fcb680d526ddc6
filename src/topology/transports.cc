#include "src/topology/transports.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

constexpr const char* kAlone = "one rank has no other on this host";

int pairsOf(int ranks) { return ranks * (ranks - 1) / 2; }

/// "the 8 ranks of this host (28 pairs)".
std::string allText(int ranks) {
  return base::message("the ", ranks, " ranks of this host (", pairsOf(ranks),
                       ranks == 2 ? " pair)" : " pairs)");
}

TransportAnswer shm(int ranks) {
  if (ranks == 1) return {"shm", "", kAlone};
  return {"shm", allText(ranks) + ", by shared memory", ""};
}

/// How p2p would reach from one GPU to the other. NVML counts the links of a
/// GPU that are up, and does not say where they lead.
GpuPair pairOf(const Machine& machine, int first, int second) {
  const Gpu& one = machine.gpus[static_cast<size_t>(first)];
  const Gpu& other = machine.gpus[static_cast<size_t>(second)];
  const auto answer = [&](bool direct, const std::string& how) {
    return GpuPair{.first = first, .second = second, .direct = direct, .how = how};
  };
  const std::string byHost = "through memory of the host, as ";
  if (first == second) return answer(true, "on the same GPU");
  const bool there = one.reaches[static_cast<size_t>(second)];
  const bool back = other.reaches[static_cast<size_t>(first)];
  if (!there && !back) return answer(false, byHost + "neither can address the other's memory");
  if (!there || !back) return answer(false, byHost + "only one can address the other's memory");
  if (one.nvLinks == 0 || other.nvLinks == 0) return answer(true, "by PCIe peer access");
  if (one.nvLinks && other.nvLinks) return answer(true, "by NVLink");
  return answer(true, "by peer access, NVLinks unknown");
}

/// Pairs of GPUs of which the same holds.
class PairGroups {
 public:
  void add(const GpuPair& pair) {
    rankPairs_ += pair.rankPairs;
    if (pair.first == pair.second) return shared_.push_back(pair.first);
    peers_[pair.first].insert(pair.second);
    peers_[pair.second].insert(pair.first);
  }
  int rankPairs() const { return rankPairs_; }

  /// "GPUs 0-3; GPU 4 with GPUs 6-7": each pair once. GPUs with the same partners are told of
  /// together.
  std::string describe() const {
    std::string text = shared_.empty() ? "" : gpusText(shared_);
    std::set<int> told;
    for (const auto& [gpu, peers] : peers_) {
      if (told.contains(gpu)) continue;
      const CpuSet group = alike(gpu);
      told.insert(group.begin(), group.end());
      CpuSet others;
      std::ranges::set_difference(peers, told, std::back_inserter(others));
      const bool eachOther = group.size() > 1 && peers.contains(group[1]);
      if (others.empty() && !eachOther) continue;
      text += (text.empty() ? "" : "; ") + gpusText(group);
      if (!others.empty())
        text += (eachOther ? " with each other and " : " with ") + gpusText(others);
    }
    return text;
  }

 private:
  static std::string gpusText(const CpuSet& gpus) {
    return (gpus.size() == 1 ? "GPU " : "GPUs ") + toString(gpus);
  }
  std::set<int> withItself(int gpu) const {
    std::set<int> all = peers_.at(gpu);
    all.insert(gpu);
    return all;
  }
  /// Those with the same partners: each other among them, or only others.
  CpuSet alike(int gpu) const {
    CpuSet group{gpu};
    for (const auto& [other, peers] : peers_)
      if (other > gpu && withItself(other) == withItself(gpu)) group.push_back(other);
    if (group.size() > 1) return group;
    for (const auto& [other, peers] : peers_)
      if (other > gpu && peers == peers_.at(gpu)) group.push_back(other);
    return group;
  }

  std::map<int, std::set<int>> peers_;
  CpuSet shared_;  // by several ranks
  int rankPairs_ = 0;
};

/// "by NVLink (GPUs 0-7)"; where there are several, with how many pairs each is about.
std::string textOf(const std::map<std::string, PairGroups>& byHow) {
  std::string text;
  for (const auto& [how, groups] : byHow) {
    if (!text.empty()) text += ", ";
    if (byHow.size() > 1) text += base::message(groups.rankPairs(), " ");
    text += how + " (" + groups.describe() + ")";
  }
  return text;
}

TransportAnswer p2p(const Machine& machine, int ranks) {
  if (const LibraryVersion* cuda = machine.library("CUDA driver"); !cuda || cuda->version.empty())
    return {"p2p", "", "no CUDA driver"};
  if (machine.gpus.empty()) return {"p2p", "", "the CUDA driver shows no GPU"};
  if (!machine.gpusUnused.empty()) return {"p2p", "", machine.gpusUnused};
  if (ranks == 1) return {"p2p", "", kAlone};
  std::map<std::string, PairGroups> byHow;
  for (const GpuPair& pair : gpuPairs(machine, ranks)) byHow[pair.how].add(pair);
  return {"p2p", allText(ranks) + ", " + textOf(byHow), ""};
}

/// "eth0, eth1": those that can be used.
std::string usableDevices(const Machine& machine, bool rdma) {
  std::string list;
  for (const NetworkDevice& device : networkDevices(machine))
    if (device.unusable.empty() && device.rdma == rdma)
      list += (list.empty() ? "" : ", ") + device.name;
  return list;
}

TransportAnswer tcp(const Machine& machine) {
  const std::string interfaces = usableDevices(machine, false);
  if (interfaces.empty()) return {"tcp", "", "no network interface but the loopback can be used"};
  return {"tcp", "ranks on other hosts, over " + interfaces, ""};
}

TransportAnswer ucx(const Machine& machine) {
  if (const LibraryVersion* library = machine.library("UCX"); !library || library->version.empty())
    return {"ucx", "", "UCX is not installed"};
  const std::string nics = usableDevices(machine, true);
  if (nics.empty())
    return {"ucx", "", "no RDMA device can be used (TUTTI_TRANSPORT=shm+ucx: it uses TCP)"};
  return {"ucx", "ranks on other hosts, by RDMA over " + nics, ""};
}

}  // namespace

std::string TransportAnswer::describe() const {
  return joins.empty() ? "nobody: " + because : joins;
}

std::vector<GpuPair> gpuPairs(const Machine& machine, int ranks) {
  const int gpus = std::min(ranks, static_cast<int>(machine.gpus.size()));
  std::vector<GpuPair> pairs;
  if (gpus == 0) return pairs;
  const auto ranksOn = [&](int gpu) { return (ranks - gpu + gpus - 1) / gpus; };
  for (int first = 0; first < gpus; ++first)
    for (int second = first; second < gpus; ++second) {
      GpuPair pair = pairOf(machine, first, second);
      pair.rankPairs = first == second ? pairsOf(ranksOn(first)) : ranksOn(first) * ranksOn(second);
      if (pair.rankPairs > 0) pairs.push_back(std::move(pair));
    }
  return pairs;
}

std::vector<TransportAnswer> transportAnswers(const Machine& machine, int ranks) {
  TUTTI_REQUIRE(ranks >= 1, ranks, " ranks");
  return {shm(ranks), p2p(machine, ranks), tcp(machine), ucx(machine)};
}

}  // namespace tutti::topology
