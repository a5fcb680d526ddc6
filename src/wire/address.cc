#include "src/wire/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "src/base/env.h"
#include "src/base/printable.h"
#include "src/base/tcp_sockets.h"
#include "src/wire/secrets.h"

namespace tutti::wire {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

template <class T>
SocketAddress pack(const T& address, size_t length = sizeof(T)) {
  SocketAddress packed;
  std::memcpy(&packed.storage, &address, sizeof address);
  packed.length = static_cast<socklen_t>(length);
  return packed;
}

size_t nameLength(const Address& address) {
  return ::strnlen(address.name.data(), Address::kNameBytes);
}

SocketAddress toSocketAddress(const Address& address) {
  if (address.family == Family::Unix) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;  // the path begins with a zero byte: abstract
    std::memcpy(to.sun_path + 1, address.name.data(), nameLength(address));
    return pack(to, offsetof(sockaddr_un, sun_path) + 1 + nameLength(address));
  }
  if (address.family == Family::Ipv4) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    std::memcpy(&to.sin_addr, address.ip.data(), sizeof to.sin_addr);
    return pack(to);
  }
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(address.port);
  std::memcpy(&to.sin6_addr, address.ip.data(), sizeof to.sin6_addr);
  to.sin6_scope_id = address.zone;
  return pack(to);
}

const char* explain(int error) {
  switch (error) {
    case EADDRINUSE: return ": another job, or another program, listens there";
    case EADDRNOTAVAIL: return ": that is not an address of this host, where rank 0 runs";
    case EMFILE: return ": RLIMIT_NOFILE is reached (ulimit -n)";
    default: return "";
  }
}

base::FileDescriptor makeSocket(const Address& address) {
  const int domain = address.family == Family::Unix   ? AF_UNIX
                     : address.family == Family::Ipv4 ? AF_INET
                                                      : AF_INET6;
  base::FileDescriptor made(::socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) {
    const int error = errno;
    base::failSyscall("socket", error, "for " + address.describe() + explain(error));
  }
  if (address.family != Family::Unix) {
    const int on = 1, attempts = 3;  // to connect: 15 seconds
    // A port in TIME_WAIT, or from which a socket of ours connects, may be listened at; a port at
    // which somebody listens may not.
    TUTTI_SYSCALL(::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_SYNCNT, &attempts, sizeof attempts);
  }
  return made;
}

Address named(const std::string& name) {
  Address address;
  TUTTI_ASSERT(name.size() <= Address::kNameBytes, name);
  std::copy(name.begin(), name.end(), address.name.begin());
  return address;
}

/// 26 letters and digits of 16 bytes.
std::string letters(std::span<const std::byte, 16> bytes) {
  std::string text(26, '0');
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t bit = i * 5;
    unsigned value = std::to_integer<unsigned>(bytes[bit / 8]) << 8;
    if (bit / 8 + 1 < bytes.size()) value |= std::to_integer<unsigned>(bytes[bit / 8 + 1]);
    text[i] = "abcdefghijklmnopqrstuvwxyz234567"[(value >> (11 - bit % 8)) & 31];
  }
  return text;
}

std::string zoneName(uint32_t zone) {
  char name[IF_NAMESIZE] = "";
  return ::if_indextoname(zone, name) ? name : std::to_string(zone);
}

/// "lo, eth0"
std::string interfaceNames() {
  const std::unique_ptr<struct if_nameindex, decltype(&::if_freenameindex)> list(
      ::if_nameindex(), ::if_freenameindex);
  std::string names;
  for (const struct if_nameindex* i = list.get(); i && i->if_index != 0; ++i)
    names += base::message(names.empty() ? "" : ", ", i->if_name);
  return names;
}

/// The resolver itself says no more of an unknown zone than of an unknown host.
void requireZone(const std::string& host) {
  const size_t percent = host.find('%');
  if (percent == std::string::npos) return;
  const std::string zone = host.substr(percent + 1);
  const bool isNumber = !zone.empty() && zone.find_first_not_of("0123456789") == std::string::npos;
  TUTTI_REQUIRE(isNumber || ::if_nametoindex(zone.c_str()) != 0, "host ", base::printable(host),
                ": ", base::printable(zone), " is no interface of this host, which has ",
                interfaceNames());
}

}  // namespace

std::string Address::describe() const {
  if (family == Family::Unix)
    return "Unix socket @" + base::printable({name.data(), nameLength(*this)});
  return family == Family::Ipv4 ? base::message(describeIp(), ":", port)
                                : base::message("[", describeIp(), "]:", port);
}

std::string Address::describeIp() const {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(family == Family::Ipv4 ? AF_INET : AF_INET6, ip.data(), text, sizeof text);
  return zone == 0 ? text : base::message(text, "%", zoneName(zone));
}

Address randomUnixAddress() { return named("tutti-" + letters(randomBytes<16>())); }

Address derivedUnixAddress(const std::string& seed) {
  return named("tutti-" + letters(digest<16>("abstract name", seed)));
}

Address resolve(const std::string& host, uint16_t port) {
  requireZone(host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  TUTTI_REQUIRE(error == 0, "host ", base::printable(host),
                " cannot be resolved: ", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  for (const addrinfo* entry = found; entry; entry = entry->ai_next)
    if (auto address = addressOf(*entry->ai_addr)) {
      TUTTI_REQUIRE(!isLinkLocal(*address) || address->zone != 0, "host ", base::printable(host),
                    " is a link-local address, which means nothing without its interface: write ",
                    address->describeIp(), "%INTERFACE, one of ", interfaceNames());
      address->port = port;
      return *address;
    }
  base::fail(ErrorCode::InvalidArgument, "host ", base::printable(host), " has no IP address");
}

std::optional<Address> addressOf(const sockaddr& address) {
  Address ip;
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    ip.family = Family::Ipv4;
    ip.port = ntohs(in.sin_port);
    std::memcpy(ip.ip.data(), &in.sin_addr, sizeof in.sin_addr);
    return ip;
  }
  if (address.sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    ip.family = Family::Ipv6;
    ip.port = ntohs(in.sin6_port);
    std::memcpy(ip.ip.data(), &in.sin6_addr, sizeof in.sin6_addr);
    if (isLinkLocal(ip)) ip.zone = in.sin6_scope_id;
    return ip;
  }
  return std::nullopt;
}

std::optional<Address> localAddress(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(socket, address, &length) != 0) return std::nullopt;
  return addressOf(*address);
}

bool valid(const Address& address) {
  if (address.zone != 0 && !isLinkLocal(address)) return false;
  const auto isZero = [](const auto& bytes, size_t from) {
    return std::all_of(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
                       [](auto byte) { return byte == decltype(byte){}; });
  };
  const bool anyIp = !isZero(address.ip, 0);
  const bool isPadded = isZero(address.name, nameLength(address));
  switch (address.family) {
    case Family::Unix: return nameLength(address) > 0 && isPadded && address.port == 0 && !anyIp;
    case Family::Ipv4:
      if (!isZero(address.ip, sizeof(in_addr))) return false;
      [[fallthrough]];
    case Family::Ipv6: return address.port != 0 && anyIp && nameLength(address) == 0 && isPadded;
  }
  return false;
}

bool isLinkLocal(const Address& address) {
  return address.family == Family::Ipv6 && address.ip[0] == std::byte{0xfe} &&
         (address.ip[1] & std::byte{0xc0}) == std::byte{0x80};
}

Address seenFrom(Address address, const Address& own) {
  if (isLinkLocal(address)) address.zone = own.zone;
  return address;
}

bool isLoopback(const Address& address) {
  if (address.family == Family::Ipv4) return address.ip[0] == std::byte{127};
  std::array<std::byte, 16> one{};
  one.back() = std::byte{1};
  return address.family == Family::Ipv6 && address.ip == one;
}

void write(base::ByteWriter& out, const Address& address) {
  out.put(address.family).put(address.port);
  out.put(std::span<const std::byte>(address.ip));
  out.put(std::as_bytes(std::span(address.name)));
}

Address readAddress(base::ByteReader& in) {
  Address address;
  address.family = in.getEnum("address family", Family::Unix, Family::Ipv6);
  address.port = in.get<uint16_t>("port");
  const base::Bytes ip = in.getBytes("IP address", address.ip.size());
  const base::Bytes name = in.getBytes("socket name", address.name.size());
  if (ip.size() != address.ip.size() || name.size() != address.name.size())
    base::fail(ErrorCode::Refused, "an address has ", ip.size(), " and ", name.size(), " bytes");
  std::copy(ip.begin(), ip.end(), address.ip.begin());
  std::memcpy(address.name.data(), name.data(), name.size());
  if (!valid(address)) base::fail(ErrorCode::Refused, "an address is malformed");
  return address;
}

base::FileDescriptor listenOn(const Address& address, int backlog) {
  base::FileDescriptor made = makeSocket(address);
  const SocketAddress to = toSocketAddress(address);
  if (::bind(made.get(), to.get(), to.length) != 0 || ::listen(made.get(), backlog) != 0) {
    const int error = errno;
    base::failSyscall("bind", error, address.describe() + explain(error));
  }
  return made;
}

Connecting startConnecting(const Address& address) {
  Connecting result{.socket = makeSocket(address)};
  const SocketAddress to = toSocketAddress(address);
  int status = 0;
  do {
    status = ::connect(result.socket.get(), to.get(), to.length);
  } while (status != 0 && errno == EINTR);
  if (status != 0 && errno != EINPROGRESS) {
    result.error = errno;
    result.socket.reset();
  } else if (base::isConnectedToItself(result.socket.get(), *to.get())) {
    base::closeByReset(std::move(result.socket));
    result.error = ECONNREFUSED;
  }
  return result;
}

void noticeDeadHost(int socket) {
  if (!localAddress(socket)) return;
  const auto set = [&](int level, int option, int value) {
    TUTTI_SYSCALL(::setsockopt(socket, level, option, &value, sizeof value));
  };
  constexpr long kMostSeconds = 3600;
  const long patience = std::min(base::lenientEnv().reconnectMs, kMostSeconds * 1000);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);  // seconds
  set(IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(std::max(1L, patience / 1000 - 3)));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  // Milliseconds, where data is under way.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::max(3500L, patience)));
  // Sent again at even intervals at first: with doubled ones a link that is back is found too late.
  set(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
}

bool isConnected(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

PeerProcess peerProcess(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return {.pid = credentials.pid, .uid = credentials.uid};
}

}  // namespace tutti::wire
