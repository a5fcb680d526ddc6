// Which transports join which ranks, on machines that nobody here has.

#include <gtest/gtest.h>

#include <algorithm>

#include <tutti/error.h>

#include "src/base/check.h"
#include "src/topology/transports.h"
#include "tests/topology/big_machine.h"

namespace tutti::topology {
namespace {

TEST(Transports, SayWhomTheyJoinAndWhyNot) {
  const auto words = [](const Machine& m, int ranks) {
    std::vector<std::string> lines;
    for (const TransportAnswer& a : transportAnswers(m, ranks)) {
      EXPECT_FALSE(a.joins.empty() && a.because.empty()) << a.name;
      lines.push_back(a.name + (a.joins.empty() ? " no: " + a.because : " " + a.describe()));
    }
    return lines;
  };
  Machine m = bigMachine();
  using Lines = std::vector<std::string>;
  EXPECT_EQ(words(m, 4),
            (Lines{"shm the 4 ranks of this host (6 pairs), by shared memory",
                   "p2p the 4 ranks of this host (6 pairs), by peer access, NVLinks unknown "
                   "(GPUs 0-3)",
                   "tcp ranks on other hosts, over eth0",
                   "ucx ranks on other hosts, by RDMA over mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_3:1, "
                   "mlx5_4:1, mlx5_5:1, mlx5_6:1, mlx5_7:1"}));
  m.nics.clear();
  m.gpus.clear();
  EXPECT_EQ(words(m, 1),
            (Lines{"shm no: one rank has no other on this host",
                   "p2p no: the CUDA driver shows no GPU", "tcp ranks on other hosts, over eth0",
                   "ucx no: no RDMA device can be used (TUTTI_TRANSPORT=shm+ucx: it "
                   "uses TCP)"}));
  m.libraries.clear();
  EXPECT_EQ(words(m, 2)[1], "p2p no: no CUDA driver");
  EXPECT_EQ(words(m, 2)[3], "ucx no: UCX is not installed");
  m.libraries = {{.name = "UCX", .version = "1.13.1"}};
  m.interfaces.clear();
  EXPECT_EQ(words(m, 2)[2], "tcp no: no network interface but the loopback can be used");
}

/// GPUs with so many NVLinks each, of which every two reach each other.
Machine withGpus(const std::vector<std::optional<int>>& nvLinks) {
  Machine m;
  m.libraries = {{.name = "CUDA driver", .version = "12.4"}};
  for (const auto& links : nvLinks)
    m.gpus.push_back({.nvLinks = links, .reaches = std::vector<bool>(nvLinks.size(), true)});
  return m;
}

std::string p2pWords(const Machine& m, int ranks) {
  const TransportAnswer answer = transportAnswers(m, ranks)[1];
  EXPECT_EQ(answer.name, "p2p");
  return answer.describe();
}

TEST(Transports, JoinGpusByNvLinkOrPeerAccess) {
  EXPECT_EQ(p2pWords(withGpus({18, 18, 18, 18}), 4),
            "the 4 ranks of this host (6 pairs), by NVLink (GPUs 0-3)");
  EXPECT_EQ(p2pWords(withGpus({0, 0}), 2),
            "the 2 ranks of this host (1 pair), by PCIe peer access (GPUs 0-1)");
  EXPECT_EQ(p2pWords(withGpus({4, 4, 0}), 3),
            "the 3 ranks of this host (3 pairs), 1 by NVLink (GPUs 0-1), 2 by PCIe peer access "
            "(GPUs 0-1 with GPU 2)");
  EXPECT_EQ(p2pWords(withGpus({4, std::nullopt}), 2),
            "the 2 ranks of this host (1 pair), by peer access, NVLinks unknown (GPUs 0-1)");
  EXPECT_EQ(p2pWords(withGpus({18, 18}), 1), "nobody: one rank has no other on this host");
  // GPUs that no rank is on do not count.
  EXPECT_EQ(p2pWords(withGpus({18, 18, 0, std::nullopt}), 2),
            "the 2 ranks of this host (1 pair), by NVLink (GPUs 0-1)");
}

TEST(Transports, JoinRanksThatShareAGpu) {
  EXPECT_EQ(p2pWords(withGpus({0}), 3),
            "the 3 ranks of this host (3 pairs), on the same GPU (GPU 0)");
  EXPECT_EQ(p2pWords(withGpus({18, 18}), 5),
            "the 5 ranks of this host (10 pairs), 6 by NVLink (GPUs 0-1), 4 on the same GPU "
            "(GPUs 0-1)");
  EXPECT_EQ(
      gpuPairs(withGpus({18, 18}), 3),
      (std::vector<GpuPair>{{0, 0, 1, true, "on the same GPU"}, {0, 1, 2, true, "by NVLink"}}));
}

TEST(Transports, SayWhichGpusDoNotReachEachOther) {
  EXPECT_EQ(p2pWords(bigMachine(), 8),
            "the 8 ranks of this host (28 pairs), 12 by peer access, NVLinks unknown (GPUs 0-3; "
            "GPUs 4-7), 16 through memory of the host, as neither can address the other's memory "
            "(GPUs 0-3 with GPUs 4-7)");
  Machine m = withGpus({0, 0});
  m.gpus[1].reaches = {false, true};
  EXPECT_EQ(
      p2pWords(m, 2),
      "the 2 ranks of this host (1 pair), through memory of the host, as only one can address "
      "the other's memory (GPUs 0-1)");
  m.gpus[0].reaches = {true, false};
  EXPECT_EQ(p2pWords(m, 2),
            "the 2 ranks of this host (1 pair), through memory of the host, as neither can address "
            "the other's memory (GPUs 0-1)");
  EXPECT_EQ(p2pWords(m, 4),
            "the 4 ranks of this host (6 pairs), 2 on the same GPU (GPUs 0-1), 4 through memory of "
            "the host, as neither can address the other's memory (GPUs 0-1)");
  m.gpusUnused = "this build has no CUDA";
  EXPECT_EQ(p2pWords(m, 2), "nobody: this build has no CUDA");
}

// Two rings of four with a link between each two of the same place, as in a DGX-1.
TEST(Transports, NameEachPairOfGpusOnce) {
  Machine m = withGpus(std::vector<std::optional<int>>(8, 6));
  for (size_t a = 0; a < 8; ++a)
    for (size_t b = 0; b < 8; ++b) m.gpus[a].reaches[b] = a / 4 == b / 4 || a % 4 == b % 4;
  EXPECT_EQ(p2pWords(m, 8),
            "the 8 ranks of this host (28 pairs), 16 by NVLink (GPU 0 with GPUs 1-4; GPU 1 with "
            "GPUs 2-3,5; GPU 2 with GPUs 3,6; GPU 3 with GPU 7; GPU 4 with GPUs 5-7; GPU 5 with "
            "GPUs 6-7; GPU 6 with GPU 7), 12 through memory of the host, as neither can address "
            "the other's "
            "memory "
            "(GPU 0 with GPUs 5-7; GPU 1 with GPUs 4,6-7; GPU 2 with GPUs 4-5,7; GPU 3 with GPUs "
            "4-6)");
  m = withGpus({0, 0, 0, 0});  // all but 2 and 3 reach each other
  m.gpus[2].reaches[3] = m.gpus[3].reaches[2] = false;
  EXPECT_EQ(
      p2pWords(m, 4),
      "the 4 ranks of this host (6 pairs), 5 by PCIe peer access (GPUs 0-1 with each other "
      "and GPUs 2-3), 1 through memory of the host, as neither can address the other's memory "
      "(GPUs 2-3)");
}

}  // namespace
}  // namespace tutti::topology
