#pragma once

// Ranks that are processes, and how they tell each other their addresses in tests.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "tests/support/child_processes.h"

namespace tutti::tests {

/// Every rank hears what all say, in the order of ranks; the test's process passes it on.
class Hub {
 public:
  explicit Hub(int ranks) : ranks_(ranks), pairs_(static_cast<size_t>(ranks)) {
    for (auto& pair : pairs_) TUTTI_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()));
  }
  ~Hub() {
    for (auto& pair : pairs_)
      for (const int end : pair) close(end);
  }
  /// In a rank's process.
  std::vector<base::Bytes> exchange(int rank, const base::Bytes& mine) {
    TUTTI_SYSCALL(write(pairs_[rank][1], mine.data(), mine.size()));
    std::vector<base::Bytes> all;
    for (int r = 0; r < ranks_; ++r) all.push_back(receive(pairs_[rank][1]));
    return all;
  }
  /// In the test's: one exchange.
  void serve() {
    std::vector<base::Bytes> all;
    for (auto& pair : pairs_) all.push_back(receive(pair[0]));
    for (auto& pair : pairs_)
      for (const base::Bytes& bytes : all)
        TUTTI_SYSCALL(write(pair[0], bytes.data(), bytes.size()));
  }

 private:
  static base::Bytes receive(int from) {
    base::Bytes bytes(4096);
    bytes.resize(static_cast<size_t>(TUTTI_SYSCALL(read(from, bytes.data(), bytes.size()))));
    return bytes;
  }
  const int ranks_;
  std::vector<std::array<int, 2>> pairs_;
};

inline const base::Bytes kHere{std::byte{1}};

/// A process for each rank, all at one hub. The test's own process must not have called CUDA.
class RanksAtHub {
 public:
  /// `body` returns the exit code of a rank. What it throws is printed, and the code is 1.
  RanksAtHub(int ranks, const std::function<int(Hub& hub, int rank)>& body) : hub_(ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      processes_.start([&, rank] {
        try {
          return body(hub_, rank);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
          return 1;
        }
      });
  }
  void serve(int exchanges) {
    for (int i = 0; i < exchanges; ++i) hub_.serve();
  }
  void kill(int rank) { processes_.signal(rank, SIGKILL); }
  /// The first `ranks` of them end with 0.
  void expectSuccess(int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(processes_.wait(rank, std::chrono::seconds(60)), 0) << "rank " << rank;
  }

 private:
  Hub hub_;
  ChildProcesses processes_;
};

}  // namespace tutti::tests
