// Which connections a process has with other hosts: those of the control plane, and over UCX one
// with each rank that it exchanges messages with, whatever the number of communicators.

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include <tutti/tutti.h>

#include "src/base/check.h"
#include "tests/support/network_hosts.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

/// "socket:[4711]" of each socket that this process has open.
std::set<std::string> ownSockets() {
  std::set<std::string> sockets;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with("socket:")) sockets.insert(target);
  }
  return sockets;
}

/// An IPv4 address as /proc/net/tcp has it.
std::string hexOf(const std::string& address) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08X", ::inet_addr(address.c_str()));
  return text.data();
}

/// How many TCP connections this process has with that address now.
int connectionsNow(const std::string& address) {
  constexpr const char* kEstablished = "01";
  const std::set<std::string> own = ownSockets();
  std::ifstream in("/proc/self/net/tcp");
  std::string line;
  std::getline(in, line);  // names of the columns
  int count = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    count += state == kEstablished && remote.starts_with(hexOf(address) + ":") &&
             own.contains("socket:[" + inode + "]");
  }
  return count;
}

/// The same when it has been so for a while: where both ends have begun a connection UCX closes one
/// of the two.
int connections(const std::string& address) {
  constexpr int kQuiet = 10;
  int count = connectionsNow(address);
  for (int quiet = 0, tries = 0; quiet < kQuiet && tries < 300; ++tries) {
    std::this_thread::sleep_for(30ms);
    const int now = connectionsNow(address);
    quiet = now == count ? quiet + 1 : 0;
    count = now;
  }
  return count;
}

class ConnectionsBetweenHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  }
};

void work(Communicator& c) {
  std::vector<float> x(20'000, 1), sums(x.size());
  for (int repeat = 0; repeat < 3; ++repeat)
    c.allReduce({.send = x.data(), .recv = sums.data(), .count = x.size()});
  EXPECT_EQ(sums.back(), static_cast<float>(c.size()));
}

TEST_F(ConnectionsBetweenHosts, AreSharedByCommunicators) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(
      2,
      [&](const Context& context) {
        const std::string other = hosts.address(1 - context.rank);
        Communicator first = context.join({.timeout = 30s});
        const int ofControl = connections(other);
        EXPECT_EQ(ofControl, 1);
        first.barrier();
        work(first);
        const int ofOne = connections(other);
        EXPECT_GT(ofOne, ofControl);
        first.barrier();
        Communicator second = first.split(0, first.rank()).value();
        work(second);
        work(first);
        EXPECT_EQ(connections(other), ofOne);
        second.barrier();  // nobody leaves while the other one counts
        return testing::Test::HasFailure() ? 1 : 0;
      },
      [&](int rank) { hosts.enter(rank); });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

/// Where processes meet that may not connect to each other yet; made before they are forked.
class MeetingPoint {
 public:
  MeetingPoint()
      : arrived_(static_cast<std::atomic<int>*>(::mmap(nullptr, sizeof(std::atomic<int>),
                                                       PROT_READ | PROT_WRITE,
                                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~MeetingPoint() { ::munmap(arrived_, sizeof(std::atomic<int>)); }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  void await(int processes) {
    ++*arrived_;
    while (*arrived_ < processes) std::this_thread::sleep_for(1ms);
  }

 private:
  std::atomic<int>* arrived_;  // 0 in fresh memory
};

TEST_F(ConnectionsBetweenHosts, AreMadeWithThoseThatAreTalkedToOnly) {
  const NetworkHosts hosts(3);
  MeetingPoint joined, counted;
  RankProcesses ranks(
      3,
      [&](const Context& context) {
        const auto counts = [&] {
          std::vector<int> all;
          for (int host = 0; host < 3; ++host)
            all.push_back(host == context.rank ? 0 : connections(hosts.address(host)));
          return all;
        };
        Communicator c = context.join({.timeout = 30s});
        const std::vector<int> before = counts();
        joined.await(3);
        const auto exchange = [&](int one, int other) {
          if (c.rank() != one && c.rank() != other) return;
          const int peer = c.rank() == one ? other : one;
          int own = c.rank(), theirs = -1;
          Group group;
          c.send({.send = &own, .count = 1, .type = DataType::Int32, .peer = peer});
          c.receive({.recv = &theirs, .count = 1, .type = DataType::Int32, .peer = peer});
          group.end();
          EXPECT_EQ(theirs, peer);
        };
        exchange(0, 1);
        const std::vector<int> between = counts();
        for (int host = 0; host < 3; ++host) {
          const bool talked = context.rank < 2 && host == 1 - context.rank;
          EXPECT_EQ(between[host] > before[host], talked) << "with host " << host;
        }
        counted.await(3);
        exchange(1, 2);
        const std::vector<int> after = counts();
        if (context.rank == 2) {
          EXPECT_GT(after[1], before[1]);
        }
        if (context.rank != 1) {
          EXPECT_EQ(after[2 - context.rank], before[2 - context.rank]);
        }
        c.barrier();  // nobody leaves while another one counts
        return testing::Test::HasFailure() ? 1 : 0;
      },
      [&](int rank) { hosts.enter(rank); });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

}  // namespace
}  // namespace tutti::tests
