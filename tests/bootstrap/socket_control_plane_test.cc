// The control planes of processes, here with all ranks in one process: the shared suite, and what
// only sockets can do wrong.

#include "src/bootstrap/socket_control_plane.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/wire/frame.h"
#include "src/wire/address.h"
#include "tests/bootstrap/control_plane_conformance.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::countDescriptors;

using Pair = std::pair<base::FileDescriptor, base::FileDescriptor>;

Pair socketPair() {
  int ends[2];
  TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
  return {base::FileDescriptor(ends[0]), base::FileDescriptor(ends[1])};
}

std::vector<PeerInfo> members(int size) {
  return std::vector<PeerInfo>(static_cast<size_t>(size), describeThisProcess());
}

std::vector<std::shared_ptr<ControlPlane>> makePlanes(int size) {
  std::vector<std::vector<PeerSocket>> sockets(static_cast<size_t>(size));
  for (auto& row : sockets) row.resize(static_cast<size_t>(size));
  for (int a = 0; a < size; ++a)
    for (int b = a + 1; b < size; ++b) {
      auto [ofA, ofB] = socketPair();
      const wire::Key session = wire::randomBytes<32>();
      sockets[a][b] = sealedSocket(std::move(ofA), session, a, b);
      sockets[b][a] = sealedSocket(std::move(ofB), session, b, a);
    }
  std::vector<std::shared_ptr<ControlPlane>> planes;
  for (int rank = 0; rank < size; ++rank)
    planes.push_back(makeSocketControlPlane(rank, members(size), std::move(sockets[rank])));
  return planes;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Socket, ControlPlaneConformance,
                         testing::Values(ControlPlaneKind{"socket", makePlanes}));

namespace {

/// Rank 0 of 2 whose peer is the bare other end of its socket.
struct HalfPlane {
  HalfPlane() {
    auto [near, far] = socketPair();
    std::vector<PeerSocket> sockets(2);
    sockets[1] = sealedSocket(std::move(near), session, 0, 1);
    other = std::move(far);
    plane = makeSocketControlPlane(0, members(2), std::move(sockets));
    plane->listen(1, &listener);
  }
  ~HalfPlane() { plane->ignore(1); }
  void write(const void* data, size_t bytes) {
    ASSERT_EQ(::send(other.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void write(const base::Bytes& bytes) { write(bytes.data(), bytes.size()); }
  /// What rank 1 sends for that.
  base::Bytes seal(const FrameHeader& header, const std::string& text = {}) {
    const auto bytes = std::as_bytes(std::span(text));
    base::Bytes payload(bytes.begin(), bytes.end());
    base::Bytes frame = writer.seal(header, payload);
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
  }
  const wire::Key session = wire::randomBytes<32>();
  SealedFrameWriter writer{sealedSocket({}, session, 1, 0).sending};
  base::FileDescriptor other;
  RecordingListener listener;
  std::shared_ptr<ControlPlane> plane;
};

void expectLost(HalfPlane& half, const base::Bytes& bytes, const std::string& why) {
  half.write(bytes);
  const auto events = half.listener.wait(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(contains(events[0], "lost 1 ") && contains(events[0], why)) << events[0];
}

TEST(SocketControlPlane, ProtocolViolationsEndThatPeerWithTheReason) {
  for (const auto& [header, why] : {std::pair(FrameHeader{.kind = static_cast<FrameKind>(9)},
                                              "sent something that is not a frame"),
                                    {{.descriptors = kMaxDescriptors + 1}, "limit"},
                                    {{.descriptors = 2}, "sent 0"}}) {
    HalfPlane half;
    expectLost(half, half.seal(header), why);
  }
  HalfPlane half;
  base::Bytes payload(kMaxPayloadBytes + 1);
  expectLost(half, half.writer.seal({}, payload), "limit");
}

// Of somebody on the way who has no key.
TEST(SocketControlPlane, FramesThatOthersInjectEndThatConnectionAndAreNotBelieved) {
  const std::string why = "its control connection was tampered with or garbled";
  HalfPlane noise, changed, repeated, leftOut, reflected;
  expectLost(noise, base::Bytes(1000, std::byte{7}), why);
  base::Bytes frame = changed.seal({.channel = 1}, "a message");
  frame.back() ^= std::byte{1};
  expectLost(changed, frame, why);
  leftOut.seal({.channel = 1}, "a message");
  expectLost(leftOut, leftOut.seal({.channel = 1}, "another"), why);
  SealedFrameWriter own(sealedSocket({}, reflected.session, 0, 1).sending);
  base::Bytes payload(9);
  base::Bytes sent = own.seal({.channel = 1}, payload);
  sent.insert(sent.end(), payload.begin(), payload.end());
  expectLost(reflected, sent, why);
  frame = repeated.seal({.type = 3, .channel = 1}, "once");
  repeated.write(frame);
  repeated.write(frame);
  EXPECT_EQ(repeated.listener.wait(2),
            (std::vector<std::string>{"message 1 3 once", "lost 1 " + why}));
}

TEST(SocketControlPlane, FramesMayComeByteByByte) {
  HalfPlane half;
  for (const std::byte byte : half.seal({.type = 3, .channel = 1}, "slow")) {
    half.write(&byte, 1);
    std::this_thread::yield();
  }
  EXPECT_EQ(half.listener.wait(1), (std::vector<std::string>{"message 1 3 slow"}));
}

TEST(SocketControlPlane, APeerThatDoesNotReadIsLostAtTheBound) {
  HalfPlane half;
  const std::string big(kMaxPayloadBytes, 'b');
  for (size_t sent = 0; sent <= kMaxQueuedBytes + (8u << 20); sent += big.size())
    half.plane->send(1, makeMessage(1, 0, big));
  const auto events = half.listener.wait(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(contains(events[0], "lost 1 does not read")) << events[0];
}

TEST(SocketControlPlane, AnEndInTheMiddleOfAFrameIsALoss) {
  HalfPlane half;
  base::Bytes frame = half.seal({.type = 3, .channel = 1}, std::string(100, 'x'));
  frame.resize(kSealedHeaderBytes);
  half.write(frame);
  half.other.reset();
  const auto events = half.listener.wait(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0], "lost 1 closed its connection without leaving");
}

/// A process that does nothing, and a connection with it.
struct IdleProcess {
  IdleProcess() {
    const wire::Address address = wire::randomUnixAddress();
    const base::FileDescriptor listener = wire::listenOn(address, 1);
    pid = TUTTI_SYSCALL(::fork());
    if (pid == 0) {
      const wire::Connecting connection = wire::startConnecting(address);
      for (;;) ::pause();
    }
    for (int tries = 0; !socket && tries < 5000; ++tries) {
      socket = base::FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
      if (!socket) ::usleep(1000);
    }
  }
  ~IdleProcess() {
    kill();
    ::waitpid(pid, nullptr, 0);
  }
  void kill() const { ::kill(pid, SIGKILL); }
  pid_t pid = -1;
  base::FileDescriptor socket;
};

// A rank whose end the kernel is slow to report, and another that ended because of it: the first is
// told first, though nothing is known of its process yet.
TEST(SocketControlPlane, WhoEndedFirstIsLostFirst) {
  IdleProcess process;
  ASSERT_TRUE(process.socket);
  auto [near, far] = socketPair();  // no end of it is in that process
  std::vector<PeerSocket> sockets(3);
  sockets[1].socket = std::move(process.socket);
  sockets[2].socket = std::move(near);
  RecordingListener listener;
  const auto plane = makeSocketControlPlane(0, members(3), std::move(sockets));
  plane->listen(1, &listener);
  far.reset();
  ASSERT_TRUE(listener.waitTicks(1));
  process.kill();
  EXPECT_EQ(listener.wait(2), (std::vector<std::string>{
                                  "lost 2 closed its connection without leaving",
                                  "lost 1 its process ended",
                              }));
  plane->ignore(1);
}

TEST(SocketControlPlane, DescriptorsBeyondTheLimitOfTheProcessAreANamedLoss) {
  BoardProcesses processes(1, [](int, BoardProcesses::Board&) -> std::string {
    auto planes = makePlanes(2);
    RecordingListener listener;
    planes[1]->listen(1, &listener);
    ControlMessage message = makeMessage(1, 1, "files");
    for (int i = 0; i < 4; ++i) message.descriptors.emplace_back(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    // Sending closes these four here, and two of the slots may be used again.
    const rlimit limit{static_cast<rlim_t>(countDescriptors() - 1 - 2), 20000};
    TUTTI_SYSCALL(::setrlimit(RLIMIT_NOFILE, &limit));
    planes[0]->send(1, std::move(message));
    const auto events = listener.wait(1);
    planes[1]->ignore(1);
    return events.empty() ? "nothing" : events[0];
  });
  const auto results = processes.results();
  EXPECT_TRUE(contains(results[0], "lost 0") && contains(results[0], "RLIMIT_NOFILE"))
      << results[0];
}

TEST(SocketControlPlane, IsInertInAForkedChildAndTheParentGoesOn) {
  BoardProcesses processes(1, [](int, BoardProcesses::Board&) -> std::string {
    auto planes = makePlanes(2);
    RecordingListener listener;
    planes[1]->listen(1, &listener);
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        planes[0]->send(1, makeMessage(1, 1, "from the child"));
      } catch (const Error& error) {
        code = error.code() == ErrorCode::InvalidUsage ? 0 : 2;
      }
      planes.clear();
      ::_exit(code);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    planes[0]->send(1, makeMessage(1, 2, "from the parent"));
    const auto events = listener.wait(1);
    planes[1]->ignore(1);
    return base::message(status, " ", events.empty() ? "nothing" : events[0]);
  });
  EXPECT_EQ(processes.results()[0], "0 message 0 2 from the parent");
}

TEST(SocketControlPlane, LeavesNoDescriptors) {
  const int before = countDescriptors();
  for (int i = 0; i < 20; ++i) {
    auto planes = makePlanes(4);
    planes[2].reset();
    planes[0]->leave();
  }
  EXPECT_EQ(countDescriptors(), before);
}

}  // namespace
}  // namespace tutti::bootstrap
