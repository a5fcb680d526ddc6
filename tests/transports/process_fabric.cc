#include "tests/transports/process_fabric.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/child_processes.h"

namespace tutti::tests {
namespace {

using base::FileDescriptor;
using transports::EndpointAddress;

// With at most one descriptor.
void sendAddress(int socket, const EndpointAddress& address) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec data{const_cast<std::byte*>(address.blob.data()), address.blob.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!address.descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = address.descriptors.at(0).get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  TUTTI_SYSCALL(::sendmsg(socket, &message, MSG_NOSIGNAL));
}

EndpointAddress receiveAddress(int socket) {
  pollfd waiting{socket, POLLIN, 0};
  if (::poll(&waiting, 1, 30'000) != 1) throw std::runtime_error("no address came within 30 s");
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  EndpointAddress address;
  address.blob.resize(16384);
  iovec data{address.blob.data(), address.blob.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  address.blob.resize(
      static_cast<size_t>(TUTTI_SYSCALL(::recvmsg(socket, &message, MSG_CMSG_CLOEXEC))));
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    address.descriptors.emplace_back(fd);
  }
  return address;
}

// Sockets between all pairs: at(i, j) is rank i's end towards rank j.
class Mesh {
 public:
  explicit Mesh(int size) : size_(size), ends_(static_cast<size_t>(size * size)) {
    for (int i = 0; i < size; ++i)
      for (int j = i + 1; j < size; ++j) {
        int pair[2];
        TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        ends_[static_cast<size_t>(i * size + j)] = FileDescriptor(pair[0]);
        ends_[static_cast<size_t>(j * size + i)] = FileDescriptor(pair[1]);
      }
  }
  int at(int i, int j) const { return ends_[static_cast<size_t>(i * size_ + j)].get(); }

 private:
  const int size_;
  std::vector<FileDescriptor> ends_;
};

// No rank goes on before all have come here: as at the set-up of a communicator, each has then
// connected to all others.
void meetAll(int rank, int size, const Mesh& mesh) {
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) sendAddress(mesh.at(rank, peer), {.blob = base::Bytes(1), .descriptors = {}});
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) receiveAddress(mesh.at(rank, peer));
}

using MakeEndpoint = std::function<std::unique_ptr<Endpoint>(int rank)>;

std::string runRank(int rank, const Scenario& scenario, const MakeEndpoint& make,
                    const Mesh& mesh) {
  std::unique_ptr<Endpoint> endpoint;  // a rank that vanishes does not say so
  try {
    endpoint = make(rank);
    for (int peer = 0; peer < scenario.size; ++peer)
      if (peer != rank) sendAddress(mesh.at(rank, peer), endpoint->address(peer));
    for (int peer = 0; peer < scenario.size; ++peer)
      if (peer != rank) endpoint->connect(peer, receiveAddress(mesh.at(rank, peer)));
    meetAll(rank, scenario.size, mesh);
    return drive(*endpoint, rank, scenario);
  } catch (const Departure&) {
    ::raise(SIGKILL);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

std::string finish(ChildProcesses& processes, int rank, const FileDescriptor& report,
                   const base::Deadline& deadline) {
  const int code = processes.wait(rank, std::chrono::milliseconds(deadline.remainingMs()));
  if (code < 0) return "hung, and was killed";
  if (code == 128 + SIGKILL) return {};  // it vanished on purpose
  if (code > 128) return base::message("ended by signal ", code - 128);
  char text[4096];
  const ssize_t n = ::read(report.get(), text, sizeof text);
  if (n > 0) return std::string(text, static_cast<size_t>(n));
  return code == 0 ? std::string() : base::message("exited with ", code);
}

}  // namespace

std::vector<std::string> driveProcesses(const Scenario& scenario, const MakeEndpoint& make) {
  const auto deadline = base::Deadline::after(scenario.within + std::chrono::seconds(30));
  ChildProcesses processes;
  std::vector<FileDescriptor> reports;
  {
    const Mesh mesh(scenario.size);
    for (int r = 0; r < scenario.size; ++r) {
      int report[2];
      TUTTI_SYSCALL(::pipe2(report, O_CLOEXEC));
      processes.start([&] {
        const std::string problem = runRank(r, scenario, make, mesh);
        const ssize_t written = ::write(report[1], problem.data(), problem.size());
        return problem.empty() && written == 0 ? 0 : 1;
      });
      ::close(report[1]);
      reports.emplace_back(report[0]);
    }
  }
  std::vector<std::string> problems;
  for (int r = 0; r < scenario.size; ++r)
    problems.push_back(finish(processes, r, reports[static_cast<size_t>(r)], deadline));
  return problems;
}

}  // namespace tutti::tests
