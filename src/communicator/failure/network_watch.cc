#include "src/communicator/failure/network_watch.h"

#include <algorithm>
#include <utility>

#include <tutti/error.h>

namespace tutti::communicator {
namespace {

constexpr int64_t kPatienceNs = 1'000'000'000;
// Whom an operation has not waited for so long is not asked any more.
constexpr int64_t kForgottenNs = 2'000'000'000;
// Any packet of a probe may be lost, so there are several.
constexpr int64_t kAgainNs = 500'000'000;
constexpr int64_t kMillisecondNs = 1'000'000, kLongestMs = 3'600'000;

}  // namespace

NetworkWatch::NetworkWatch(int64_t reconnectMs)
    : cutNs_(std::max(kLeastCutNs, std::min(reconnectMs, kLongestMs) * kMillisecondNs)) {}

std::optional<NetworkWatch::Cut> NetworkWatch::look(transports::Endpoint& endpoint,
                                                    uint64_t operation, std::span<const int> peers,
                                                    int64_t nowNs) {
  if (operation != operation_) asked_.clear();
  operation_ = operation;
  std::erase_if(asked_, [&](auto& each) { return nowNs - each.second.seenNs > kForgottenNs; });
  for (const int peer : peers) {
    const auto [place, isNew] = asked_.try_emplace(peer);
    if (isNew) place->second.nextNs = nowNs + kPatienceNs;
    place->second.seenNs = nowNs;
  }
  for (auto& [each, asked] : asked_)
    if (auto where = ask(endpoint, each, asked, nowNs)) return Cut{each, std::move(*where)};
  return std::nullopt;
}

std::optional<std::string> NetworkWatch::ask(transports::Endpoint& endpoint, int peer, Asked& asked,
                                             int64_t nowNs) {
  bool isThere = false, isHeard = false, isElsewhere = false;
  for (const auto& probe : asked.probes) {
    const auto finding = probe->look();
    isThere |= finding == transports::ReachabilityProbe::Finding::Peer;
    isElsewhere |= finding == transports::ReachabilityProbe::Finding::Elsewhere;
    isHeard |= probe->heard();
  }
  const bool wasHeard = std::exchange(asked.isHeard, isHeard && !isThere);
  // A process that was heard and has died is not cut off: the control plane says so presently.
  if (isThere || (wasHeard && !isHeard && isElsewhere)) {
    asked.probes.clear();
    asked.nextNs = nowNs + (isThere ? kPatienceNs : kAgainNs);
    return std::nullopt;
  }
  if (isHeard) return std::nullopt;
  if (wasHeard || (!asked.probes.empty() && nowNs - asked.firstNs >= cutNs_))
    return asked.probes.front()->describe();
  if (nowNs < asked.nextNs) return std::nullopt;
  asked.nextNs = nowNs + kAgainNs;
  try {
    auto probe = endpoint.probe(peer, transports::ReachabilityProbe::Scope::Used);
    if (!probe) return std::nullopt;
    if (asked.probes.empty()) asked.firstNs = nowNs;
    asked.probes.push_back(std::move(probe));
  } catch (const Error&) {  // without a descriptor or a port nothing is found out
  }
  return std::nullopt;
}

}  // namespace tutti::communicator
