#include "src/bootstrap/link_watch.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/base/tcp_sockets.h"

namespace tutti::bootstrap {
namespace {

constexpr double kSlowMs = 50, kSlowerMs = 5, kTimesOthers = 10;
constexpr double kLoss = 1.0 / 200;

/// In the upper half where they are even in number; not a number of none.
double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// "612 ms", "0.21 ms"
std::string milliseconds(double ms) {
  return base::message(ms < 10 ? std::round(ms * 100) / 100 : std::round(ms), " ms");
}

}  // namespace

std::string peerIp(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(socket, address, &length) != 0) return {};
  const auto ip = wire::addressOf(*address);
  return ip ? ip->describeIp() : std::string();
}

std::vector<TcpConnection> tcpConnections() {
  std::vector<TcpConnection> connections;
  for (const base::TcpSocket& each : base::tcpSockets()) {
    std::string peer = peerIp(each.socket);
    if (peer.empty() || !each.roundTripMs) continue;
    connections.push_back({.socket = each.socket,
                           .peer = std::move(peer),
                           .roundTripMs = *each.roundTripMs,
                           .packets = each.packets,
                           .sentAgain = each.sentAgain});
  }
  return connections;
}

std::vector<std::string> LinkWatch::look(const std::vector<TcpConnection>& connections) {
  std::vector<TcpConnection> known;
  std::ranges::copy_if(connections, std::back_inserter(known),
                       [&](const TcpConnection& one) { return hosts_.contains(one.peer); });
  std::vector<std::string> lines = slow(known);
  std::ranges::move(losing(known), std::back_inserter(lines));
  return lines;
}

std::vector<std::string> LinkWatch::slow(const std::vector<TcpConnection>& connections) {
  std::map<std::string, double> roundTrips;
  for (const TcpConnection& one : connections) {
    const auto [at, isNew] = roundTrips.emplace(one.peer, one.roundTripMs);
    if (!isNew) at->second = std::min(at->second, one.roundTripMs);
  }
  std::vector<std::string> lines;
  for (const auto& [ip, ms] : roundTrips) {
    if (ms < kSlowerMs || slow_.contains(ip)) continue;
    std::vector<double> others;
    for (const auto& [other, itsMs] : roundTrips)
      if (other != ip) others.push_back(itsMs);
    const double theirs = median(others);
    if (ms < kSlowMs && !(ms >= kTimesOthers * theirs)) continue;
    slow_.insert(ip);
    lines.push_back(base::message(
        link(ip), "a packet's round trip takes ", milliseconds(ms), " at least",
        others.empty() ? "" : ", with the other hosts " + milliseconds(theirs) + " in the median"));
  }
  return lines;
}

std::vector<std::string> LinkWatch::losing(const std::vector<TcpConnection>& connections) {
  std::map<int, Counts> now;
  for (const TcpConnection& one : connections) {
    Counts since = before_[one.socket];
    if (one.packets < since.packets || one.sentAgain < since.sentAgain) since = {};  // another one
    now[one.socket] = {one.packets, one.sentAgain};
    Counts& counts = judged_[one.peer];
    counts.packets += one.packets - since.packets;
    counts.sentAgain += one.sentAgain - since.sentAgain;
  }
  before_ = std::move(now);
  std::vector<std::string> lines;
  for (auto& [ip, counts] : judged_) {
    if (counts.packets < kPacketsJudged) continue;
    const double share =
        static_cast<double>(counts.sentAgain) / static_cast<double>(counts.packets);
    if (share >= kLoss && losing_.insert(ip).second)
      lines.push_back(base::message(link(ip), std::round(share * 1000) / 10, "% of ",
                                    counts.packets, " packets had to be sent again"));
    counts = {};
  }
  return lines;
}

std::string LinkWatch::link(const std::string& ip) const {
  return base::message("slow link to host ", hosts_.at(ip), " (", ip, "): ");
}

}  // namespace tutti::bootstrap
