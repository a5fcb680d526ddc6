// Calls of communicators on emulated GPUs that cannot end well: those that ranks disagree about,
// that the GPU cannot make, that are aborted, and that wait for a rank that has left.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "tests/communicator/gpu/calls.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

/// What fails the communicator while nobody calls it.
Outcome asyncOutcome(const Communicator& c) {
  while (!c.asyncError()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return {c.asyncError()->code(), c.asyncError()->what()};
}

// Whoever has sent may have ended well, and learns of it behind that.
TEST_F(GpuCalls, SendsThatDifferFromTheirReceivesAreAMismatchOnBothSides) {
  struct Received {
    size_t count;
    DataType type;
  };
  for (const bool byCopies : {false, true})
    for (const auto& [count, type] :
         {Received{6, DataType::Float32}, Received{7, DataType::Int32},
          Received{28, DataType::UInt8}, Received{kCount, DataType::Int32}}) {
      Setting s(2, 2, kCount, {.timeout = std::chrono::seconds(20), .gpuCopies = byCopies});
      const size_t sent = count == kCount ? kCount : 7;
      s.ranks[0].send({s.values[0].data(), sent, DataType::Float32, 1}, s.streams[0]);
      s.ranks[0].barrier(s.streams[0]);
      void* const recv = s.values[1].data();
      s.ranks[1].receive({recv, count, type, 0}, s.streams[1]);
      for (const Communicator& c : s.ranks) {
        const Outcome outcome = asyncOutcome(c);
        expectError(outcome, ErrorCode::Mismatch, "1 receive of ");
        expectError(outcome, ErrorCode::Mismatch,
                    base::message("rank 1 receives ", count, " ", toString(type)));
        expectError(outcome, ErrorCode::Mismatch, base::message("sends ", sent, " float32"));
      }
    }
}

// Both only send, so both calls may end well; then the next one finds what they have left. By
// copies it waits for their slots instead.
TEST_F(GpuCalls, ThatLeaveMessagesAreAMismatchOfTheCallsThatDiffer) {
  Setting s(2, 2, kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    const int r = c.rank();
    const float* const in = s.values[r].data();
    Floats out(c.device(), kCount, 0.0f);
    c.allReduce(s.args(r, 16));
    const Outcome outcome = outcomeOf([&] {
      if (r == 0)
        c.scatter({.send = in, .recv = out.data(), .count = 16, .root = 0});
      else
        c.gather({.send = in, .recv = out.data(), .count = 16, .root = 0});
      c.allReduce(s.args(r, 16));
    });
    expectError(outcome, ErrorCode::Mismatch, "ranks disagree about operation 2");
    expectError(outcome, ErrorCode::Mismatch, "calls scatter of 16 float32");
    expectError(outcome, ErrorCode::Mismatch, "calls gather of 16 float32");
  });
}

// Collectives have numbers among all launches.
TEST_F(GpuCalls, ThatDisagreeBehindTransfersAreAMismatchWithBothSides) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    runRanks(s.ranks, [&](Communicator& c) {
      const int r = c.rank();
      for (int i = 0; i < 3; ++i) {
        if (r == 0) c.send({s.values[0].data(), 7, DataType::Float32, 1});
        if (r == 1) c.receive({s.values[1].data(), 7, DataType::Float32, 0});
      }
      const size_t count = r == 0 ? kCount : kCount - 1;
      const Outcome outcome = outcomeOf([&] { c.allReduce(s.args(r, count)); });
      expectError(outcome, ErrorCode::Mismatch, "all_reduce of 5000 float32");
      expectError(outcome, ErrorCode::Mismatch, "all_reduce of 4999 float32");
    });
  }
}

TEST_F(GpuCalls, WhichTheGpuCannotMakeAreRefused) {
  auto ranks = makeRanks(2, 2);
  const Memory memory = allocateOn(gpu(0), 64);
  const Reduction own("mine", DataType::UInt8, [](const void*, void*, size_t) {});
  expectError(outcomeOf([&] {
                ranks[0].allReduce({.send = memory.data(),
                                    .recv = memory.data(),
                                    .count = 1,
                                    .type = DataType::UInt8,
                                    .reduction = own});
              }),
              ErrorCode::Unsupported, "the reduction mine is a function of the host");
  const float ordinary = 2;
  expectError(outcomeOf([&] {
                ranks[0].allReduce({.send = memory.as<float>(),
                                    .recv = memory.as<float>(),
                                    .count = 1,
                                    .op = ReduceOp::PreMulSum,
                                    .scalarAt = &ordinary});
              }),
              ErrorCode::InvalidArgument,
              "send is memory of a GPU, and scalarAt is ordinary memory of the host");
  expectError(outcomeOf([&] {
                ranks[0].allReduce({.send = memory.as<float>(),
                                    .recv = memory.as<float>(),
                                    .count = 2,
                                    .op = ReduceOp::PreMulSum,
                                    .scalarAt = memory.as<float>() + 1});
              }),
              ErrorCode::InvalidArgument, "scalarAt lies in recv");
  CommunicatorOptions mixed;
  mixed.devices = {gpu(0), Device{}, gpu(0)};
  auto half = Communicator::createLocal(3, mixed);
  for (const int rank : {0, 2})
    expectError(
        outcomeOf([&] {
          half[rank].allReduce(
              {.send = memory.data(), .recv = memory.data(), .count = 1, .type = DataType::UInt8});
        }),
        ErrorCode::Unsupported, "the ranks' GPUs are not joined: rank 1 has no GPU");
}

TEST_F(GpuCalls, ThatDisagreeAreAMismatchWithBothSides) {
  Setting s(2, 2, kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    const size_t count = c.rank() == 0 ? kCount : kCount - 1;
    const Outcome outcome = outcomeOf([&] { c.allReduce(s.args(c.rank(), count)); });
    expectError(outcome, ErrorCode::Mismatch, "all_reduce of 5000 float32");
    expectError(outcome, ErrorCode::Mismatch, "all_reduce of 4999 float32");
  });
}

// No message or entry of the one call is where the other waits: they take other wires, or have
// other roots. They ask each other.
TEST_F(GpuCalls, ThatNeverMeetAreAMismatchWithBothSides) {
  constexpr size_t kMost = 100'000;
  const auto sum = [](Setting& s, int r, size_t count) { s.ranks[r].allReduce(s.args(r, count)); };
  const auto broadcast = [](Setting& s, int r, int root) {
    s.ranks[r].broadcast({.send = s.values[r].data(),
                          .recv = s.values[r].data(),
                          .count = 4,
                          .type = DataType::Float32,
                          .root = root});
  };
  struct Row {
    std::function<void(Setting&, int)> call[2];  // of either rank
    std::string text[2];
  };
  const Row rows[] = {
      {{[&](Setting& s, int r) { sum(s, r, 2); }, [&](Setting& s, int r) { sum(s, r, kMost); }},
       {"all_reduce of 2 float32", "all_reduce of 100000 float32"}},
      {{[&](Setting& s, int r) { sum(s, r, 8192); }, [&](Setting& s, int r) { sum(s, r, 16384); }},
       {"all_reduce of 8192 float32", "all_reduce of 16384 float32"}},
      {{[&](Setting& s, int r) { broadcast(s, r, 1); },
        [&](Setting& s, int r) { broadcast(s, r, 0); }},
       {"broadcast of 4 float32, root 1", "broadcast of 4 float32, root 0"}}};
  for (const bool byCopies : {false, true})
    for (const int devices : {1, 2})
      for (const Row& row : rows) {
        SCOPED_TRACE(testing::Message() << row.text[0] << byCopies << devices);
        Setting s(2, devices, kMost, {.timeout = std::chrono::seconds(120), .gpuCopies = byCopies});
        runRanks(s.ranks, [&](Communicator& c) {
          const Outcome outcome = outcomeOf([&] { row.call[c.rank()](s, c.rank()); });
          for (const std::string& text : row.text) expectError(outcome, ErrorCode::Mismatch, text);
        });
      }
}

// Calls that are captured have numbers, and their replays none: what rank 0 calls by a number need
// not be what rank 1 calls by it, be it that rank 0 waits and asks, or rank 1.
TEST_F(GpuCalls, OfARankThatReplaysAreNotComparedByTheirNumbers) {
  constexpr int kReplays = 3;
  for (const int asking : {0, 1}) {
    Setting s(2, 2, kCount);
    const auto sum = [&](int r, size_t count) {
      s.ranks[r].allReduce(s.args(r, count), s.streams[r]);
    };
    const auto sendTwice = [&] {
      for (int i = 0; i < 2; ++i)
        s.ranks[0].send({s.values[0].data(), 1, DataType::Float32, 1}, s.streams[0]);
    };
    const auto sumThrice = [&] {
      for (int i = 0; i < 3; ++i) sum(0, kCount);
    };
    const cudaStream_t stream = StreamRef(s.streams[0]).cuda();
    const cudaGraphExec_t graph = capture(s.ranks[0], stream, [&] { sum(0, kCount); });
    const cudaGraphExec_t other = capture(s.ranks[0], stream, [&] {
      asking == 0 ? sendTwice() : sumThrice();  // never replayed
    });
    for (int i = 0; i < kReplays; ++i) {
      ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
      sum(1, kCount);
    }
    sum(asking, 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    sum(1 - asking, 10);
    for (Stream& each : s.streams) each.synchronize();
    for (const Communicator& c : s.ranks) EXPECT_FALSE(c.asyncError()) << c.asyncError()->what();
    for (const cudaGraphExec_t each : {graph, other})
      EXPECT_EQ(cudaGraphExecDestroy(each), cudaSuccess);
  }
}

// Only the fingerprint tells them apart.
TEST_F(GpuCalls, ThatDisagreeAboutTheReductionAreAMismatch) {
  Setting s(2, 2, kCount);
  runRanks(s.ranks, [&](Communicator& c) {
    AllReduceArgs args = s.args(c.rank(), kCount);
    if (c.rank() == 1) args.op = ReduceOp::Max;
    expectError(outcomeOf([&] { c.allReduce(args); }), ErrorCode::Mismatch, "float32, max");
  });
}

TEST_F(GpuCalls, ThatAreAbortedEndAndSayWhy) {
  Setting s(2, 2, kCount);
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  s.ranks[0].abort();
  s.streams[0].synchronize();
  expectError(outcomeOf([&] { s.ranks[0].barrier(s.streams[0]); }), ErrorCode::Aborted, "abort()");
  EXPECT_EQ(s.ranks[0].asyncError()->code(), ErrorCode::Aborted);
}

// Wherever it comes, also just before what is to be launched: kernels that are aborted say no more.
TEST_F(GpuCalls, SayWhyTheyWereAbortedWheneverThatIs) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round)
    for (const bool byCopies : {false, true}) {
      Setting s(1, 1, kCount, {.gpuCopies = byCopies});
      Outcome outcome;
      std::thread calling([&] {
        outcome = outcomeOf([&] {
          while (true) s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
        });
      });
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
      s.ranks[0].abort();
      calling.join();
      expectError(outcome, ErrorCode::Aborted, "abort() was called");
    }
}

// Their caller may look at his stream, which comes to its end a moment after they are taken back.
TEST_F(GpuCalls, ThatAreTakenBackLeaveTheirStreams) {
  Setting s(2, 2, kCount);
  CudaGate gate(s.streams[0]);
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  s.ranks[0].abort();
  std::thread opening([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gate.open();
  });
  while (!communicator::Inspection::gpuHasLeftStreams(s.ranks[0])) std::this_thread::yield();
  EXPECT_EQ(cudaStreamQuery(StreamRef(s.streams[0]).cuda()), cudaSuccess);
  opening.join();
}

TEST_F(GpuCalls, ThatNobodyElseMakesEndByTheirDeadline) {
  Setting s(2, 2, kCount, {.timeout = std::chrono::milliseconds(300)});
  const Outcome outcome = outcomeOf([&] { s.ranks[0].allReduce(s.args(0, kCount)); });
  expectError(outcome, ErrorCode::Timeout, "did not complete within 300 ms");
  expectError(outcome, ErrorCode::Timeout, "it waits for rank 1");
}

TEST_F(GpuCalls, ThatEndByTheirDeadlineSayHowMuchHasCome) {
  Setting s(3, 3, kCount, {.timeout = std::chrono::seconds(5)});
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  const Outcome outcome = outcomeOf([&] { s.ranks[1].allReduce(s.args(1, kCount)); });
  expectError(outcome, ErrorCode::Timeout, "it waits for rank 2");
  expectError(outcome, ErrorCode::Timeout, " bytes received");
  EXPECT_EQ(outcome.text.find(" with 0 bytes"), std::string::npos)
      << "each has what the other sent";
}

TEST_F(GpuCalls, ThatNeedARankThatHasLeftEnd) {
  Setting s(2, 2, kCount);
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  s.ranks.pop_back();
  s.streams[0].synchronize();
  expectError(outcomeOf([&] {
                while (true) s.ranks[0].barrier(s.streams[0]), s.streams[0].synchronize();
              }),
              ErrorCode::PeerLost, "left; rank 0");
}

// Whoever leaves waits for what he has launched, also where a peer's part comes later.
TEST_F(GpuCalls, EndWellThoughARankLeavesMeanwhile) {
  for (const bool byCopies : {false, true}) {
    Setting s(2, 2, kCount, {.gpuCopies = byCopies});
    CudaGate gate(s.streams[0]);
    for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
    std::thread leaving([&] { s.ranks.pop_back(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate.open();
    leaving.join();
    for (int r = 0; r < 2; ++r) {
      s.streams[r].synchronize();
      EXPECT_TRUE(s.values[r].are(3)) << r;
    }
  }
}

TEST_F(GpuCalls, OfARankThatFailsEndTheOthers) {
  Setting s(3, 3, kCount);
  for (int r = 0; r < 2; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  s.ranks[2].abort();
  for (int r = 0; r < 2; ++r) {
    s.streams[r].synchronize();
    expectError(outcomeOf([&] {
                  while (true) s.ranks[r].barrier(s.streams[r]), s.streams[r].synchronize();
                }),
                ErrorCode::Aborted, "reported by rank 2");
  }
}

}  // namespace
}  // namespace tutti::tests
