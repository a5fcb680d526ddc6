#include "transports/ucx/admission.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"
#include "src/base/tcp_sockets.h"

namespace tutti::transports::ucx {
namespace {

template <class Value>
std::optional<Value> option(int socket, int name) {
  Value value{};
  socklen_t bytes = sizeof value;
  if (::getsockopt(socket, SOL_SOCKET, name, &value, &bytes) != 0) return std::nullopt;
  return value;
}

/// Of this end of a socket of IP.
std::optional<TcpPlace> placeOf(int socket) {
  sockaddr_storage storage{};
  auto& name = reinterpret_cast<sockaddr&>(storage);
  socklen_t bytes = sizeof storage;
  if (::getsockname(socket, &name, &bytes) != 0) return std::nullopt;
  const auto address = sourceAddress(name);
  if (!address) return std::nullopt;
  const in_port_t port = name.sa_family == AF_INET
                             ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                             : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port;
  return TcpPlace{*address, port};
}

bool stillListens(const Listener& listener) {
  return option<uint64_t>(listener.socket, SO_COOKIE) == listener.cookie;
}

/// Those that nobody has accepted. UCX's sockets do not block.
void closeWaiting(int listener) {
  if ((TUTTI_SYSCALL(::fcntl(listener, F_GETFL)) & O_NONBLOCK) == 0) return;
  while (true) {
    const base::FileDescriptor waiting(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!waiting) return;
  }
}

bool tellsOf(const base::Bytes& worker, in_port_t port) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&port);
  return std::search(worker.begin(), worker.end(), bytes, bytes + sizeof port) != worker.end();
}

}  // namespace

std::optional<Listener> listenerOf(int socket) {
  if (option<int>(socket, SO_ACCEPTCONN).value_or(0) == 0 ||
      option<int>(socket, SO_PROTOCOL) != IPPROTO_TCP)
    return std::nullopt;
  const auto cookie = option<uint64_t>(socket, SO_COOKIE);
  const auto place = placeOf(socket);
  if (!cookie || !place) return std::nullopt;
  return Listener{socket, *cookie, *place};
}

std::vector<Listener> tcpListeners() {
  std::vector<Listener> found;
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/self/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    int socket = -1;
    std::from_chars(name.data(), name.data() + name.size(), socket);
    if (const auto listener = listenerOf(socket)) found.push_back(*listener);
  }
  if (error)
    base::fail(ErrorCode::System,
               "UCX's ports cannot be guarded: /proc cannot be read here: ", error.message());
  return found;
}

std::vector<Listener> listenersOf(const base::Bytes& worker, const std::vector<Listener>& before) {
  std::vector<Listener> found = tcpListeners();
  std::erase_if(found, [&](const Listener& each) {
    return std::ranges::count(before, each.cookie, &Listener::cookie) > 0;
  });
  const auto others = std::partition(found.begin(), found.end(), [&](const Listener& each) {
    return tellsOf(worker, each.place.port);
  });
  if (others == found.begin() && !found.empty())
    base::fail(ErrorCode::System, "UCX's ports cannot be guarded: ", found.size(),
               " sockets began to listen while it made a worker, and its address tells of none");
  found.erase(others, found.end());
  return found;
}

Admission::Admission(std::vector<Listener> listeners) : listeners_(std::move(listeners)) {
  attach();
}

// UCX's own thread accepts as well, and does nothing more before the worker makes progress.
void Admission::cutOff() const {
  for (const Listener& each : listeners_)
    if (stillListens(each)) closeWaiting(each.socket);
  const std::vector<base::TcpSocket> sockets = base::tcpSockets();
  for (const base::TcpSocket& each : sockets)
    if (std::ranges::count(listeners_, placeOf(each.socket), &Listener::place) > 0)
      ::shutdown(each.socket, SHUT_RDWR);  // fails where it has ended
}

void Admission::admit(std::span<const SourceAddress> addresses) {
  const size_t before = admitted_.size();
  admitted_.insert(addresses.begin(), addresses.end());
  if (admitted_.size() > before) attach();
}

void Admission::attach() const {
  std::vector<sock_filter> code = sourceFilter(admitted_);
  const sock_fprog program{static_cast<uint16_t>(code.size()), code.data()};
  for (const Listener& each : listeners_)
    if (stillListens(each) &&
        ::setsockopt(each.socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
      base::failSyscall("setsockopt(SO_ATTACH_FILTER)", errno,
                        base::message("UCX's ports cannot be guarded by a filter of ", code.size(),
                                      " instructions for ", admitted_.size(),
                                      " addresses (sysctl net.core.optmem_max)"));
}

}  // namespace tutti::transports::ucx
