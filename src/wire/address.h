#pragma once

// Address: where a process listens, as a value: an abstract Unix socket, which exists in one
// network namespace and leaves no file, or an IP address with a port. Sockets made here are
// nonblocking and close on exec; nothing binds to all interfaces, and nothing shares a port.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/bytes.h"
#include "src/base/file_descriptor.h"

struct sockaddr;

namespace tutti::wire {

enum class Family : uint8_t { Unix = 1, Ipv4 = 2, Ipv6 = 3 };

struct Address {
  static constexpr size_t kNameBytes = 32;

  Family family = Family::Unix;
  uint16_t port = 0;                    ///< of IP families, host byte order
  std::array<std::byte, 16> ip{};       ///< network byte order; IPv4 in the first 4
  std::array<char, kNameBytes> name{};  ///< of Unix, without the leading zero byte, zero-padded
  /// Of a link-local address of IPv6: the index of this host's interface to that link. It has a
  /// meaning on this host alone, and is sent to nobody. Else 0.
  uint32_t zone = 0;

  std::string describe() const;
  std::string describeIp() const;  ///< without the port, with the zone: "fe80::1%eth0"
  bool operator==(const Address&) const = default;
};

/// An abstract name that nobody else has: "tutti-" and 26 random letters.
Address randomUnixAddress();
/// The abstract name that everybody who has `seed` derives.
Address derivedUnixAddress(const std::string& seed);
/// `host` is a number or a name; the resolver may take its own time. Throws InvalidArgument, also
/// for a link-local address whose zone is missing ("fe80::1", not "fe80::1%eth0") or unknown.
Address resolve(const std::string& host, uint16_t port);

/// Without the zone.
void write(base::ByteWriter& out, const Address& address);
/// Throws Refused when malformed.
Address readAddress(base::ByteReader& in);
/// Whether the fields make sense together.
bool valid(const Address& address);

/// Whether an IP address leads from every host to that host itself.
bool isLoopback(const Address& address);

/// Whether an IPv6 address needs a zone.
bool isLinkLocal(const Address& address);
/// Another host's address as this host reaches it: a link-local one through the zone of `own`, this
/// host's address on the same link.
Address seenFrom(Address address, const Address& own);

/// An IP address with its port; nothing for other families.
std::optional<Address> addressOf(const sockaddr& address);
/// Where an IP socket is bound.
std::optional<Address> localAddress(int socket);

/// Port 0 lets the kernel choose one: localAddress() tells which. Throws System; the message says
/// what an address in use, or not of this host, means.
base::FileDescriptor listenOn(const Address& address, int backlog);

struct Connecting {
  base::FileDescriptor socket;  ///< empty when `error` is not 0
  int error = 0;                ///< errno; a connection in progress is not an error
};
/// A socket that got `address` for its own, which is connected to itself, is closed: ECONNREFUSED.
Connecting startConnecting(const Address& address);

/// Has the kernel ask whether the other host is still there, every second; a connection whose host
/// has not answered for about 4 s, or for TUTTI_RECONNECT_MS if that is longer, ends with
/// ETIMEDOUT. Kernels answer, so a stopped process counts as there. Nothing for Unix sockets.
void noticeDeadHost(int socket);

/// Whether the other end's kernel has taken the connection.
bool isConnected(int socket);

/// Who is at the other end of a Unix socket; pid 0 when the kernel does not say.
struct PeerProcess {
  int64_t pid = 0;
  uint32_t uid = ~uint32_t{0};
};
PeerProcess peerProcess(int socket);

}  // namespace tutti::wire
