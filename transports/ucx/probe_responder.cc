#include "transports/ucx/probe_responder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/tcp_sockets.h"
#include "transports/ucx/network_devices.h"
#include "transports/ucx/settings.h"

namespace tutti::transports::ucx {
namespace {

// Probes that come while the thread that answers them is busy; the kernel takes no more than its
// own limit.
constexpr int kBacklog = 4096;

sockaddr_in socketAddress(const ProbeSocket& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = place.address;
  address.sin_port = htons(place.port);
  return address;
}

base::FileDescriptor tcpSocket() {
  return base::FileDescriptor(
      TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
}

/// A socket that listens at an address, at a port of the kernel's; empty where it cannot.
base::FileDescriptor listenAt(uint32_t address) {
  base::FileDescriptor socket = tcpSocket();
  const sockaddr_in at = socketAddress({address, 0});
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return {};
  return socket;
}

/// A connection whose other kernel has not answered for about 6 s ends with ETIMEDOUT.
void askKernel(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
}

uint16_t portOf(const base::FileDescriptor& socket) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  TUTTI_SYSCALL(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes));
  return ntohs(address.sin_port);
}

/// By which probes' own sockets are known, for they are no sign that data goes anywhere: they wait
/// for a number.
constexpr int kProbeBytes = sizeof(uint64_t);

void markAsProbe(int socket) {
  TUTTI_SYSCALL(::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &kProbeBytes, sizeof kProbeBytes));
}

bool isProbe(int socket) {
  int least = 0;
  socklen_t bytes = sizeof least;
  return ::getsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &least, &bytes) == 0 && least == kProbeBytes;
}

/// Of connect(): that says something of this host alone, at this moment.
bool isOfThisHost(int error) {
  constexpr std::array kOwn{EADDRNOTAVAIL, EAGAIN, ENOBUFS, ENOMEM, EPERM};
  return std::ranges::count(kOwn, error) > 0;
}

class TcpReachabilityProbe final : public ReachabilityProbe {
 public:
  /// `bestCounts`: of the findings, or the worst.
  TcpReachabilityProbe(uint64_t number, const std::vector<ProbeSocket>& places, bool bestCounts)
      : number_(number), bestCounts_(bestCounts) {
    for (const ProbeSocket& place : places) attempts_.push_back({.place = place});
    for (Attempt& each : attempts_) begin(each);
  }

  Finding look() override {
    for (Attempt& each : attempts_)
      if (each.socket) advance(each);
    using enum Finding;
    constexpr std::array kWorstFirst{Elsewhere, Unreachable, Silence, Host, Peer};
    constexpr std::array kBestFirst{Peer, Host, Elsewhere, Silence, Unreachable};
    return *std::ranges::find_if(bestCounts_ ? kBestFirst : kWorstFirst, [&](Finding finding) {
      return std::ranges::any_of(attempts_,
                                 [&](const Attempt& each) { return each.finding == finding; });
    });
  }

  bool heard() const override {
    const auto isHeard = [](const Attempt& each) {
      return each.finding == Finding::Host || each.finding == Finding::Peer;
    };
    return bestCounts_ ? std::ranges::any_of(attempts_, isHeard)
                       : std::ranges::all_of(attempts_, isHeard);
  }

  std::string describe() const override {
    const std::vector<uint32_t> own = ownAddresses();
    std::string text;
    for (const Attempt& each : attempts_) {
      if (each.finding == Finding::Peer) continue;
      const bool isOwn = std::ranges::count(own, each.place.address) > 0;
      text += base::message(
          text.empty() ? "" : ", ", describeAddress(each.place.address), ":", each.place.port,
          each.how.empty() ? "" : " (" + each.how + ")",
          attempts_.size() > 1 && each.finding == Finding::Silence ? " (no answer)" : "",
          isOwn ? ", an address that this host has, too" : "");
    }
    return text;
  }

 private:
  struct Attempt {
    ProbeSocket place;
    base::FileDescriptor socket = {};  // empty when it is over
    Finding finding = Finding::Silence;
    std::string how = {};
    std::array<std::byte, sizeof(uint64_t)> heard = {};
    size_t heardBytes = 0;
  };

  static void end(Attempt& attempt, Finding finding, std::string how) {
    attempt.socket.reset();
    attempt.finding = finding;
    attempt.how = std::move(how);
  }

  static void fail(Attempt& attempt, int error) {
    const bool isAnswer = error == ECONNREFUSED || error == ECONNRESET;
    end(attempt, isAnswer ? Finding::Elsewhere : Finding::Unreachable, std::strerror(error));
  }

  static void begin(Attempt& attempt) {
    attempt.socket = tcpSocket();
    markAsProbe(attempt.socket.get());
    askKernel(attempt.socket.get());
    const sockaddr_in to = socketAddress(attempt.place);
    const auto& place = reinterpret_cast<const sockaddr&>(to);
    const int status = ::connect(attempt.socket.get(), &place, sizeof to);
    const int error = status == 0 ? 0 : errno;
    if (error == 0 || error == EINPROGRESS) {
      if (!base::isConnectedToItself(attempt.socket.get(), place)) return;
      base::closeByReset(std::move(attempt.socket));
      return fail(attempt, ECONNREFUSED);
    }
    if (isOfThisHost(error))
      base::fail(ErrorCode::System, "no connection to ", describeAddress(attempt.place.address),
                 ":", attempt.place.port, " can be begun: ", std::strerror(error));
    fail(attempt, error);
  }

  void advance(Attempt& attempt) {
    if (attempt.finding == Finding::Silence) {
      pollfd ready{attempt.socket.get(), POLLOUT, 0};
      if (::poll(&ready, 1, 0) <= 0) return;
      int error = 0;
      socklen_t bytes = sizeof error;
      ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      if (error != 0) return fail(attempt, error);
      attempt.finding = Finding::Host;
    }
    const ssize_t got = ::recv(attempt.socket.get(), attempt.heard.data() + attempt.heardBytes,
                               attempt.heard.size() - attempt.heardBytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return fail(attempt, errno);
    if (got == 0) return end(attempt, Finding::Elsewhere, "it said nothing");
    attempt.heardBytes += static_cast<size_t>(got);
    if (attempt.heardBytes < attempt.heard.size()) return;
    if (std::memcmp(attempt.heard.data(), &number_, sizeof number_) == 0)
      end(attempt, Finding::Peer, "");
    else
      end(attempt, Finding::Elsewhere, "somebody else answers there");
  }

  const uint64_t number_;
  const bool bestCounts_;
  std::vector<Attempt> attempts_;
};

// Set-up sends each peer about 1200 bytes by a device that no data goes by, with all headers.
constexpr uint64_t kUsedBytes = 256 << 10;

/// None where that is not known.
std::vector<ProbeSocket> usedAmong(const std::vector<ProbeSocket>& places) {
  std::map<uint32_t, uint64_t> bytes;  // by address
  std::set<uint32_t> waiting;
  std::vector<base::TcpSocket> sockets = base::tcpSockets();
  std::erase_if(sockets, [](const base::TcpSocket& each) { return isProbe(each.socket); });
  const std::vector<uint32_t> peers = base::peersOf(sockets);
  for (size_t i = 0; i < sockets.size(); ++i) {
    bytes[peers[i]] += sockets[i].bytes;
    if (sockets[i].isWaiting) waiting.insert(peers[i]);
  }
  std::vector<ProbeSocket> used;
  std::ranges::copy_if(places, std::back_inserter(used), [&](const ProbeSocket& place) {
    return bytes[place.address] >= kUsedBytes || waiting.contains(place.address);
  });
  return used;
}

}  // namespace

ProbeResponder::ProbeResponder(const std::vector<uint32_t>& addresses) {
  TUTTI_SYSCALL(::getrandom(&address_.number, sizeof address_.number, 0));
  if (hasPortRange()) return;
  const auto isLoopback = [](uint32_t address) { return ntohl(address) >> 24 == IN_LOOPBACKNET; };
  for (const uint32_t address : addresses) {
    // UCX knows itself that these lead to nobody else.
    if (isLoopback(address) && !std::ranges::all_of(addresses, isLoopback)) continue;
    base::FileDescriptor listener = listenAt(address);
    if (!listener) {
      base::log(LogLevel::Info, "no port of ", describeAddress(address),
                " is left to be asked at whether it is this process that one reaches there");
      continue;
    }
    address_.places.push_back({address, portOf(listener)});
    listeners_.push_back(std::move(listener));
  }
}

void ProbeResponder::addListeners(std::vector<Listener>& all) const {
  for (const base::FileDescriptor& each : listeners_)
    if (const auto listener = listenerOf(each.get())) all.push_back(*listener);
}

void ProbeResponder::listTo(std::vector<pollfd>& waiting) {
  if (std::exchange(isShort_, false)) return;
  for (const base::FileDescriptor& listener : listeners_)
    waiting.push_back({listener.get(), POLLIN, 0});
}

// The number fits into what the kernel keeps for a new connection.
void ProbeResponder::answer() noexcept {
  for (const base::FileDescriptor& listener : listeners_)
    while (true) {
      const int prober = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (prober < 0) {
        isShort_ |= errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
        break;
      }
      [[maybe_unused]] const ssize_t told =
          ::send(prober, &address_.number, sizeof address_.number, MSG_DONTWAIT | MSG_NOSIGNAL);
      ::close(prober);
    }
}

std::unique_ptr<ReachabilityProbe> probeAddress(const ProbeAddress& where,
                                                ReachabilityProbe::Scope places) {
  if (places == ReachabilityProbe::Scope::All || where.places.size() == 1)
    return std::make_unique<TcpReachabilityProbe>(where.number, where.places, false);
  const std::vector<ProbeSocket> used = usedAmong(where.places);
  return std::make_unique<TcpReachabilityProbe>(where.number, used.empty() ? where.places : used,
                                                used.empty());
}

}  // namespace tutti::transports::ucx
