// Who may connect to a worker's ports: nobody before it has a peer, then those alone from whose
// addresses peers come. Strangers come from other addresses of loopback.

#include "transports/ucx/admission.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <random>

#include <tutti/error.h>
#include "src/base/check.h"
#include "src/base/file_descriptor.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/ucx/endpoints.h"

namespace tutti::tests {
namespace {

using base::FileDescriptor;
using transports::ucx::Admission;
using transports::ucx::Listener;
using transports::ucx::listenerOf;
using transports::ucx::listenersOf;
using transports::ucx::makeWorker;
using transports::ucx::SourceAddress;
using transports::ucx::sourceAddress;
using transports::ucx::tcpListeners;

SourceAddress of4(const char* text) { return sourceAddress(in_addr{::inet_addr(text)}); }

sockaddr_in at(const char* address, in_port_t port = 0) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = ::inet_addr(address);
  place.sin_port = port;
  return place;
}

FileDescriptor tcpSocket(int flags = 0) {
  return FileDescriptor(TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)));
}

/// As UCX's: it does not block.
FileDescriptor listening() {
  FileDescriptor socket = tcpSocket(SOCK_NONBLOCK);
  const sockaddr_in place = at("127.0.0.1");
  TUTTI_SYSCALL(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place));
  TUTTI_SYSCALL(::listen(socket.get(), 16));
  return socket;
}

/// A connection from `source`; empty where nothing has answered for 300 ms. A kernel of its own
/// answers at once.
FileDescriptor connectFrom(const char* source, in_port_t port) {
  FileDescriptor socket = tcpSocket(SOCK_NONBLOCK);
  const sockaddr_in from = at(source), to = at("127.0.0.1", port);
  TUTTI_SYSCALL(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from));
  ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  pollfd ready{socket.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 300) != 1) return {};
  EXPECT_EQ(ready.revents & (POLLERR | POLLHUP), 0) << "it was refused";
  return socket;
}

bool answers(const char* source, in_port_t port) {
  return static_cast<bool>(connectFrom(source, port));
}

bool hasEnded(int socket) {
  pollfd ended{socket, POLLRDHUP, 0};
  return eventually([&] { return ::poll(&ended, 1, 0) == 1; });
}

// ---- the filter on sockets

TEST(UcxAdmission, IsOfTheAddressesThatItWasToldOf) {
  const FileDescriptor socket = listening();
  const Listener listener = *listenerOf(socket.get());
  const in_port_t port = listener.place.port;
  EXPECT_TRUE(answers("127.0.0.2", port)) << "nothing guards it yet";
  Admission admission({listener});
  for (const char* source : {"127.0.0.1", "127.0.0.2"}) EXPECT_FALSE(answers(source, port));
  admission.admit(std::vector{of4("127.0.0.2"), of4("127.0.0.7")});
  for (const char* source : {"127.0.0.2", "127.0.0.7"}) EXPECT_TRUE(answers(source, port));
  for (const char* source : {"127.0.0.1", "127.0.0.3"}) EXPECT_FALSE(answers(source, port));
  admission.admit(std::vector{of4("127.0.0.3")});
  for (const char* source : {"127.0.0.2", "127.0.0.3"}) EXPECT_TRUE(answers(source, port));
}

// A connection inherits the filter of its time: what comes by it later passes.
TEST(UcxAdmission, LetsConnectionsLiveOn) {
  const FileDescriptor socket = listening();
  const Listener listener = *listenerOf(socket.get());
  Admission admission({listener});
  admission.admit(std::vector{of4("127.0.0.2")});
  const FileDescriptor peer = connectFrom("127.0.0.2", listener.place.port);
  ASSERT_TRUE(peer);
  const FileDescriptor accepted(TUTTI_SYSCALL(::accept(socket.get(), nullptr, nullptr)));
  admission.admit(std::vector{of4("127.0.0.9")});
  ASSERT_EQ(::send(peer.get(), "x", 1, 0), 1);
  pollfd data{accepted.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&data, 1, 5000), 1);
}

TEST(UcxAdmission, CutsOffWhoCameBefore) {
  const FileDescriptor socket = listening();
  const Listener listener = *listenerOf(socket.get());
  const FileDescriptor early = connectFrom("127.0.0.2", listener.place.port);
  const FileDescriptor accepted(TUTTI_SYSCALL(::accept(socket.get(), nullptr, nullptr)));
  const FileDescriptor waiting = connectFrom("127.0.0.2", listener.place.port);
  ASSERT_TRUE(early && waiting);
  const Admission admission({listener});
  admission.cutOff();
  EXPECT_TRUE(hasEnded(early.get()));
  EXPECT_TRUE(hasEnded(waiting.get()));
}

// UCX may close a port, and the program may get its descriptor.
TEST(UcxAdmission, LeavesAnotherSocketOfTheSameNumberAlone) {
  FileDescriptor socket = listening();
  const int number = socket.get();
  Admission admission({*listenerOf(number)});
  socket.reset();
  const FileDescriptor own = listening();
  ASSERT_EQ(own.get(), number);
  admission.admit(std::vector{of4("127.0.0.2")});
  EXPECT_TRUE(answers("127.0.0.3", listenerOf(number)->place.port));
}

// Also where net.core.optmem_max is what it was for decades: this machine's kernel may have more.
TEST(UcxAdmission, KernelsTakeTheLargestFilter) {
  const FileDescriptor socket = listening();
  Admission admission({*listenerOf(socket.get())});
  std::mt19937 random(testSeed());
  std::vector<SourceAddress> many(3000);
  for (SourceAddress& each : many)
    for (std::byte& byte : each) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 3000; ++i)
    many.push_back(sourceAddress(in_addr{static_cast<in_addr_t>(random())}));
  EXPECT_NO_THROW(admission.admit(many));
}

// ---- which sockets are UCX's

/// An address of UCX's that tells of these ports.
base::Bytes workerAt(const std::vector<in_port_t>& ports) {
  base::Bytes bytes(7);
  for (const in_port_t port : ports) {
    const base::Bytes more = base::bytesOf(port);
    bytes.insert(bytes.end(), more.begin(), more.end());
    bytes.push_back(std::byte{});
  }
  return bytes;
}

TEST(UcxAdmission, GuardsWhatIsNewAndOfTheWorker) {
  const FileDescriptor older = listening();
  const auto before = tcpListeners();
  EXPECT_TRUE(listenersOf(workerAt({}), before).empty());
  const FileDescriptor ucx = listening(), programs = listening();
  const in_port_t old = listenerOf(older.get())->place.port,
                  port = listenerOf(ucx.get())->place.port;
  const auto found = listenersOf(workerAt({old, port}), before);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].socket, ucx.get());
  const Outcome outcome = outcomeOf([&] { listenersOf(workerAt({old}), before); });
  EXPECT_EQ(outcome.code, ErrorCode::System);
  EXPECT_NE(outcome.text.find("UCX's ports cannot be guarded: 2 sockets"), std::string::npos)
      << outcome.text;
}

// ---- workers

/// Ports that began to listen since `before`.
std::vector<in_port_t> portsSince(const std::vector<Listener>& before) {
  std::vector<in_port_t> ports;
  for (const Listener& each : tcpListeners())
    if (std::ranges::count(before, each.cookie, &Listener::cookie) == 0)
      ports.push_back(each.place.port);
  return ports;
}

// Its port of UCX and that of its probe responder.
TEST(UcxWorkerAdmission, IsOfItsPeersHostsAlone) {
  const auto before = tcpListeners();
  const auto worker =
      makeWorker({.devices = "lo", .tls = "tcp,self", .rendezvous = {}, .betweenHosts = true});
  const auto ports = portsSince(before);
  ASSERT_EQ(ports.size(), 2u);
  for (const in_port_t port : ports)
    for (const char* source : {"127.0.0.1", "127.0.0.2"}) EXPECT_FALSE(answers(source, port));
  const auto peer = makeWorker(overTcp());
  auto all = makeEndpoints({worker, peer}, {});
  connectAll(all);
  for (const in_port_t port : ports) {
    EXPECT_TRUE(answers("127.0.0.1", port)) << "where the peer is";
    EXPECT_FALSE(answers("127.0.0.2", port)) << "where nobody is";
  }
  publish(all[0]->sendRing(1, 0), 1000, 7);
  EXPECT_TRUE(progressUntil(all, [&] { return all[1]->receiveRing(0, 0).ready(); }));
}

// A rank tells others of its host's addresses: of loopback only where it goes by that.
TEST(UcxWorkerAdmission, HostsTellWhereTheyComeFrom) {
  const auto loopback = makeWorker(overTcp())->sources();
  EXPECT_EQ(std::ranges::count(loopback, of4("127.0.0.1")), 1);
  const auto others = makeWorker({.devices = "none"})->sources();
  EXPECT_EQ(std::ranges::count(others, of4("127.0.0.1")), 0);
}

}  // namespace
}  // namespace tutti::tests
