#include "src/communicator/network_watch.h"

#include <algorithm>

#include <tutti/error.h>

namespace tutti::communicator {
namespace {

constexpr int64_t kPatienceNs = 1'000'000'000;
// Whom an operation has not waited for so long is not asked any more.
constexpr int64_t kForgottenNs = 2'000'000'000;
// Any packet of a visit may be lost, so there are several.
constexpr int64_t kAgainNs = 500'000'000, kCutNs = 3'000'000'000;
// Visitors of a stopped process stay in its kernel's queue: it is asked again when it has been
// waited for by this part longer.
constexpr int64_t kPart = 8;

}  // namespace

std::optional<NetworkWatch::Cut> NetworkWatch::look(transports::Endpoint& endpoint,
                                                    uint64_t operation, int peer, int64_t nowNs) {
  if (operation != operation_) asked_.clear();
  operation_ = operation;
  if (peer >= 0) {
    const auto [place, isNew] = asked_.try_emplace(peer);
    if (isNew) place->second = {.sinceNs = nowNs, .nextNs = nowNs + kPatienceNs};
    place->second.seenNs = nowNs;
  }
  std::erase_if(asked_, [&](auto& each) { return nowNs - each.second.seenNs > kForgottenNs; });
  for (auto& [each, asked] : asked_)
    if (auto where = ask(endpoint, each, asked, nowNs)) return Cut{each, std::move(*where)};
  return std::nullopt;
}

std::optional<std::string> NetworkWatch::ask(transports::Endpoint& endpoint, int peer, Asked& asked,
                                             int64_t nowNs) {
  bool isThere = false, isHeard = false;
  for (const auto& visit : asked.visits) {
    isThere |= visit->look() == transports::Visit::Finding::Peer;
    isHeard |= visit->heard();
  }
  const int64_t askedNs = nowNs - asked.firstNs;
  if (isThere || (isHeard && askedNs >= kAgainNs)) {
    asked.visits.clear();
    asked.nextNs =
        nowNs + (isThere ? kPatienceNs : std::max(kPatienceNs, (nowNs - asked.sinceNs) / kPart));
    return std::nullopt;
  }
  if (!asked.visits.empty() && !isHeard && askedNs >= kCutNs)
    return asked.visits.front()->describe();
  if (isHeard || nowNs < asked.nextNs) return std::nullopt;
  asked.nextNs = nowNs + kAgainNs;
  try {
    auto visit = endpoint.visit(peer);
    if (!visit) return std::nullopt;
    if (asked.visits.empty()) asked.firstNs = nowNs;
    asked.visits.push_back(std::move(visit));
  } catch (const Error&) {  // without a descriptor nothing is found out
  }
  return std::nullopt;
}

}  // namespace tutti::communicator
