// Communicators on emulated machines where pairs of GPUs have no peer access, or lie: memory of the
// host joins these, and nothing is refused. By kernels and by copies; all ranks in one process, or
// in two. Machines of two and of three GPUs in all patterns that differ, and of eight in some. The
// test's process itself never calls CUDA.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/communicator/gpu/ranks.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

/// `peers` as TUTTI_EMULATION_PEERS has it.
struct Machine {
  int devices = 2;
  std::string peers;
};

struct Way {
  bool byCopies = false;
  int processes = 1;
};

/// Those of one process, of as many ranks as there are devices: rank r on device r, in process r
/// modulo their number.
std::vector<Communicator> makePart(const Context& context, int devices, bool byCopies) {
  CommunicatorOptions options{.id = context.id, .size = devices, .gpuCopies = byCopies};
  if (context.size == 1) {
    for (int device = 0; device < devices; ++device) options.devices.push_back(gpu(device));
    options.id = {};
    return Communicator::createLocal(devices, options);
  }
  std::vector<std::optional<Communicator>> made(static_cast<size_t>(devices));
  std::vector<std::thread> threads;
  for (int rank = context.rank; rank < devices; rank += context.size)
    threads.emplace_back([&made, options, rank]() mutable {
      options.rank = rank;
      options.device = gpu(rank);
      made[static_cast<size_t>(rank)] = Communicator::create(options);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator> ranks;
  for (auto& rank : made)
    if (rank) ranks.push_back(std::move(*rank));
  return ranks;
}

/// How the machine joins two devices: "none", "lies" or nothing.
std::string ruleOf(const Machine& machine, int one, int other) {
  const std::string pair =
      std::to_string(std::min(one, other)) + "-" + std::to_string(std::max(one, other)) + ":";
  const size_t at = machine.peers.find(pair);
  return at == std::string::npos ? "" : machine.peers.substr(at + pair.size(), 4);
}

/// Every pair's way, and why.
void checkWays(const Communicator& c, const Machine& machine, bool byCopies) {
  std::istringstream lines(c.describe());
  std::string line;
  std::getline(lines, line);
  for (int peer = 0; peer < c.size() && std::getline(lines, line); ++peer) {
    if (peer == c.rank()) continue;
    const std::string rule = ruleOf(machine, c.rank(), peer);
    const auto has = [&](const char* words) { return line.find(words) != line.npos; };
    EXPECT_EQ(has(" through memory of the host"), !rule.empty()) << line;
    EXPECT_EQ(has(" by p2p"), rule.empty()) << line;
    EXPECT_EQ(has("has no peer access to device"), rule == "none") << line;
    EXPECT_EQ(has("arrived wrong at rank"), rule == "lies") << line;
    EXPECT_EQ(has(", with copies"), byCopies) << line;
  }
}

/// In a group, to all others and from them; and an AllReduce behind it there.
void checkGroup(Communicator& c) {
  constexpr size_t kCount = 20000;  // of several messages
  const Floats mine(c.device(), kCount, static_cast<float>(c.rank() + 1));
  const Floats sum(c.device(), kCount, 0);
  std::vector<Floats> theirs;
  for (int peer = 0; peer < c.size(); ++peer) theirs.emplace_back(c.device(), kCount, 0);
  {
    Group group;
    for (int peer = 0; peer < c.size(); ++peer) {
      c.send({.send = mine.data(), .count = kCount, .type = DataType::Float32, .peer = peer});
      c.receive(
          {.recv = theirs[peer].data(), .count = kCount, .type = DataType::Float32, .peer = peer});
    }
    c.allReduce(
        {.send = mine.data(), .recv = sum.data(), .count = kCount, .type = DataType::Float32});
    group.end();
  }
  for (int peer = 0; peer < c.size(); ++peer)
    EXPECT_TRUE(theirs[peer].are(static_cast<float>(peer + 1))) << "from rank " << peer;
  EXPECT_TRUE(sum.are(static_cast<float>(c.size() * (c.size() + 1) / 2)));
}

/// An AllReduce, captured and replayed.
void checkGraph(Communicator& c) {
  constexpr size_t kCount = 5000;
  Stream stream(c.device());
  const Floats values(c.device(), kCount, static_cast<float>(c.rank() + 1));
  const auto graph = capture(c, StreamRef(stream).cuda(), [&] {
    c.allReduce(
        {.send = values.data(), .recv = values.data(), .count = kCount, .type = DataType::Float32},
        stream);
  });
  float sum = static_cast<float>(c.size() + 1) / 2;
  for (int replay = 0; replay < 3; ++replay) {
    EXPECT_EQ(cudaGraphLaunch(graph, StreamRef(stream).cuda()), cudaSuccess);
    sum *= static_cast<float>(c.size());
  }
  stream.synchronize();
  EXPECT_TRUE(values.are(sum));
  c.barrier();
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

/// Short enough for LL, and of several messages.
std::vector<size_t> countsFor(int ranks) {
  if (kThreadSanitized || ranks > 3) return {1000, 5003};
  return {1, 1000, 30011};
}

int checkPart(const Context& context, const Machine& machine, bool byCopies) {
  auto ranks = makePart(context, machine.devices, byCopies);
  runRanks(ranks, [&](Communicator& c) {
    checkWays(c, machine, byCopies);
    Windows windows(c, 2 << 20);
    for (const size_t count : countsFor(c.size()))
      checkAll(c, {.count = count,
                   .root = static_cast<int>(count) % c.size(),
                   .inPlace = count == 1000,
                   .windows = &windows});
    checkGroup(c);
    checkGraph(c);
    c.barrier();
    const Communicator leaves = std::move(c);  // at the same time as the other ranks of the process
  });
  return testing::Test::HasFailure();
}

void check(const Machine& machine, const Way& way) {
  SCOPED_TRACE(std::to_string(machine.devices) + " devices, " + machine.peers +
               (way.byCopies ? ", copies, " : ", ") + std::to_string(way.processes) + " processes");
  RankProcesses ranks(
      way.processes,
      [&](const Context& context) { return checkPart(context, machine, way.byCopies); },
      [&](int) {
        setenv("TUTTI_EMULATION_DEVICES", std::to_string(machine.devices).c_str(), 1);
        setenv("TUTTI_EMULATION_PEERS", machine.peers.c_str(), 1);
      });
  EXPECT_TRUE(ranks.allSucceed(kSanitized ? 600s : 120s));
}

/// All that differ by more than the devices' numbers, but for the one where all reach each other.
std::vector<Machine> smallMachines() {
  const std::string kinds[] = {"", ":none", ":lies"};
  std::vector<Machine> all;
  const auto add = [&](int devices, std::vector<std::pair<const char*, int>> pairs) {
    std::string peers;
    for (const auto& [pair, kind] : pairs)
      if (kind > 0) peers += (peers.empty() ? "" : ",") + (pair + kinds[kind]);
    if (!peers.empty()) all.push_back({devices, peers});
  };
  for (int kind = 1; kind < 3; ++kind) add(2, {{"0-1", kind}});
  for (int a = 0; a < 3; ++a)
    for (int b = a; b < 3; ++b)
      for (int c = b; c < 3; ++c) add(3, {{"0-1", a}, {"0-2", b}, {"1-2", c}});
  return all;
}

/// Of eight devices, the pairs that `kindOf` has a word for.
template <class KindOf>
Machine machineOf(const KindOf& kindOf) {
  Machine machine{8, ""};
  for (int a = 0; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b)
      if (const std::string kind = kindOf(a, b); !kind.empty())
        machine.peers += (machine.peers.empty() ? "" : ",") + std::to_string(a) + "-" +
                         std::to_string(b) + ":" + kind;
  return machine;
}

std::vector<Machine> largeMachines() {
  std::vector<Machine> all;
  for (const char* const kind : {"none", "lies"}) {
    const std::string word = kind;
    all.push_back(machineOf([&](int, int) { return word; }));
    for (const int island : {2, 4})
      all.push_back(machineOf([&](int a, int b) { return a / island == b / island ? "" : word; }));
    all.push_back(machineOf([&](int a, int b) { return a == 2 && b == 5 ? word : ""; }));
    all.push_back(machineOf([&](int a, int) { return a == 0 ? word : ""; }));
  }
  std::mt19937 random(8);
  for (int machine = 0; machine < 3; ++machine)
    all.push_back(machineOf([&](int, int) -> std::string {
      const auto kind = random() % 3;
      return kind == 0 ? "" : kind == 1 ? "none" : "lies";
    }));
  return all;
}

/// Of the kernels of eight ranks.
bool hasTooManyThreads(const Way& way) {
  return kThreadSanitized && !way.byCopies && way.processes == 1;
}
constexpr const char* kTooManyThreads =
    "ThreadSanitizer keeps a megabyte of each CUDA thread, and a process has 65530 mappings";

class GpuPeers : public testing::TestWithParam<Way> {};

TEST_P(GpuPeers, OfTwoAndThreeGpusAreAllJoined) {
  for (const Machine& machine : smallMachines())
    if (!HasFailure()) check(machine, GetParam());
}

// Two islands of four, as behind two switches of PCIe.
TEST_P(GpuPeers, OfTwoIslandsAreAllJoined) {
  if (hasTooManyThreads(GetParam())) GTEST_SKIP() << kTooManyThreads;
  check(machineOf([](int a, int b) { return a / 4 == b / 4 ? "" : "none"; }), GetParam());
}

TEST_P(GpuPeers, OfEightGpusAreAllJoined) {
  if (hasTooManyThreads(GetParam())) GTEST_SKIP() << kTooManyThreads;
  for (const Machine& machine : largeMachines())
    if (!HasFailure()) check(machine, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuPeers,
                         testing::Values(Way{false, 1}, Way{false, 2}, Way{true, 1}, Way{true, 2}),
                         [](const auto& way) {
                           return std::string(way.param.byCopies ? "ByCopies" : "ByKernels") +
                                  (way.param.processes == 1 ? "InOneProcess" : "InTwo");
                         });

// The log says so once of each pair, whoever asks NCCL for its lines reads it there.
TEST(GpuPeersLog, NamesEachPairAndWhy) {
  RankProcesses ranks(
      1,
      [](const Context& context) {
        std::vector<std::string> lines;
        std::mutex mutex;
        setLogSink([&](LogLevel, std::string_view line) {
          const std::lock_guard lock(mutex);
          if (line.find("exchange messages through memory of the host") != line.npos)
            lines.emplace_back(line);
        });
        makePart(context, 3, false);
        setLogSink([](LogLevel, std::string_view) {});
        for (const std::string& line : lines) context.say(line);
        return lines.size() == 2 ? 0 : 1;
      },
      [](int) { setenv("TUTTI_EMULATION_PEERS", "0-1:none,1-2:lies", 1); });
  EXPECT_TRUE(ranks.allSucceed(60s));
  for (const char* const words :
       {"rank 0 on cuda:0 and rank 1 on cuda:1 exchange messages through memory of the host, "
        "because device 0 has no peer access to device 1",
        "rank 1 on cuda:1 and rank 2 on cuda:2 exchange messages through memory of the host, "
        "because what rank 2 wrote arrived wrong at rank 1 on device 1, from byte 0 of 16384"})
    EXPECT_NE(ranks.output(0).find(words), std::string::npos) << ranks.output(0);
}

}  // namespace
}  // namespace tutti::tests
