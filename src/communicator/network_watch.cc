#include "src/communicator/network_watch.h"

#include <algorithm>

#include <tutti/error.h>

namespace tutti::communicator {
namespace {

constexpr int64_t kPatienceNs = 1'000'000'000;
// Any packet of a visit may be lost, so there are several.
constexpr int64_t kAgainNs = 500'000'000, kCutNs = 3'000'000'000;
// A host that has answered is asked again when it has been waited for by this part longer: visitors
// of a stopped process stay in its kernel's queue.
constexpr int64_t kPart = 8;

bool isAnswered(const std::unique_ptr<transports::Visit>& visit) {
  using enum transports::Visit::Finding;
  const auto finding = visit->look();
  return finding != Silence && finding != Unreachable;
}

}  // namespace

std::optional<std::string> NetworkWatch::look(transports::Endpoint& endpoint, const Wait& wait,
                                              int64_t nowNs) {
  if (wait.peer < 0 || wait != wait_) {
    wait_ = wait;
    sinceNs_ = nowNs;
    nextNs_ = nowNs + kPatienceNs;
    visits_.clear();
    return std::nullopt;
  }
  if (std::ranges::any_of(visits_, isAnswered)) {
    visits_.clear();
    nextNs_ = nowNs + std::max(kPatienceNs, (nowNs - sinceNs_) / kPart);
  }
  if (!visits_.empty() && nowNs - askedNs_ >= kCutNs) return visits_.front()->describe();
  if (nowNs < nextNs_) return std::nullopt;
  nextNs_ = nowNs + kAgainNs;
  try {
    auto visit = endpoint.visit(wait.peer);
    if (!visit) return std::nullopt;
    if (visits_.empty()) askedNs_ = nowNs;
    visits_.push_back(std::move(visit));
  } catch (const Error&) {  // without a descriptor nothing is found out
  }
  return std::nullopt;
}

}  // namespace tutti::communicator
