// The real host operations over UCX, a thread and a worker for each rank. A rank whose operation is
// done never calls its endpoint again: the others must not need it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "collectives/algorithms.h"
#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/executor/host/exchange_operation.h"
#include "src/executor/host/host_operation.h"
#include "src/numbers/fill.h"
#include "tests/support/leftovers.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {
namespace {

using executor::ExchangeOperation;
using executor::HostOperation;
using executor::Poll;
using plan::Collective;

constexpr int kRanks = 4;
constexpr transports::RingLayout kLayout{.channels = 2, .slotCount = 2, .slotBytes = 4096};

std::string drive(executor::Operation& operation, transports::Endpoint& endpoint) {
  base::Backoff backoff(false);
  const auto deadline = base::Deadline::after(kPatience);
  while (!deadline.passed()) {
    const Poll result = operation.poll();
    if (result == Poll::Done) return {};
    if (result == Poll::Moved || endpoint.progress())
      backoff.reset();
    else
      backoff.idle();
  }
  return base::message("not done; waiting for rank ", operation.waitingFor());
}

// Runs body(rank, endpoint) on a thread for each rank; what they return must be empty.
void onAllRanks(const std::function<std::string(int, transports::Endpoint&)>& body) {
  const auto fabric = ucxThreads();
  auto endpoints = fabric->endpoints(kRanks, kLayout);
  connectAll(endpoints);
  std::vector<std::string> problems(kRanks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      try {
        problems[r] = body(static_cast<int>(r), *endpoints[r]);
      } catch (const std::exception& e) {
        problems[r] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

std::string allReduce(const plan::PlanSpec& spec, int rank, transports::Endpoint& endpoint,
                      uint64_t count) {
  const numbers::FillPattern pattern{
      .type = DataType::Float32, .op = ReduceOp::Sum, .seed = 5, .ranks = kRanks};
  std::vector<std::byte> in(count * 4), out(count * 4, std::byte{0x5a});
  numbers::fillInput(pattern, rank, 0, count, in.data());
  const executor::HostPlan plan(spec, collectives::build(spec, rank), rank);
  HostOperation operation;
  operation.begin({rank, kRanks, &endpoint}, {.staged = &plan},
                  {.facts = {.type = DataType::Float32, .count = count},
                   .in = in.data(),
                   .out = out.data(),
                   .callHash = 77,
                   .operation = 1});
  const std::string problem = drive(operation, endpoint);
  if (!problem.empty()) return spec.describe() + ": " + problem;
  const std::vector<std::byte> result = out;
  std::ranges::fill(in, std::byte{0xee});  // nobody reads them any more
  std::ranges::fill(out, std::byte{0xee});
  const size_t wrong = numbers::compareWithExpected(pattern, 0, count, result.data()).wrong;
  return wrong == 0 ? std::string() : base::message(spec.describe(), ": ", wrong, " wrong");
}

TEST(OverUcx, EveryAllReduceDeliversTheRightBits) {
  for (const uint64_t count : {1, 1000, 50'000})
    for (const auto& info : collectives::registry().algorithms()) {
      const auto spec = info.spec({Collective::AllReduce, plan::Protocol::Simple, kRanks, 0, 1});
      if (!spec) continue;
      onAllRanks([&](int rank, transports::Endpoint& endpoint) {
        return allReduce(*spec, rank, endpoint, count);
      });
    }
}

// Around a ring, each rank sends 100,000 bytes to the next; the last to start is the last to end.
TEST(OverUcx, AnExchangeIsDoneWhenItsMessagesHaveLeft) {
  constexpr uint64_t kBytes = 100'000;
  onAllRanks([&](int rank, transports::Endpoint& endpoint) -> std::string {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));
    std::vector<std::byte> out(kBytes, static_cast<std::byte>(rank)), in(kBytes);
    const int to = (rank + 1) % kRanks, from = (rank + kRanks - 1) % kRanks;
    ExchangeOperation operation;
    operation.begin({rank, kRanks, &endpoint},
                    {.sends = {{to, out.data(), kBytes}}, .receives = {{from, in.data(), kBytes}}});
    const std::string problem = drive(operation, endpoint);
    if (!problem.empty()) return problem;
    std::ranges::fill(out, std::byte{0xee});  // nobody reads it any more
    const std::vector<std::byte> expected(kBytes, static_cast<std::byte>(from));
    return in == expected ? "" : "wrong bytes";
  });
}

// One message to each neighbour, which the socket takes at once: done without the receiver.
TEST(OverUcx, ASmallSendDoesNotWaitForItsReceiver) {
  const auto fabric = ucxThreads();
  auto endpoints = fabric->endpoints(2, kLayout);
  connectAll(endpoints);
  std::byte out{42}, in{0};
  ExchangeOperation connecting[2], sending, receiving;
  for (int r = 0; r < 2; ++r)  // so that both have their connection
    connecting[r].begin({r, 2, endpoints[static_cast<size_t>(r)].get()},
                        {.sends = {{1 - r, &out, 1}}, .receives = {{1 - r, &in, 1}}});
  std::thread other([&] { EXPECT_EQ(drive(connecting[1], *endpoints[1]), ""); });
  EXPECT_EQ(drive(connecting[0], *endpoints[0]), "");
  other.join();
  in = std::byte{0};
  sending.begin({0, 2, endpoints[0].get()}, {.sends = {{1, &out, 1}}});
  EXPECT_EQ(drive(sending, *endpoints[0]), "");
  receiving.begin({1, 2, endpoints[1].get()}, {.receives = {{0, &in, 1}}});
  EXPECT_EQ(drive(receiving, *endpoints[1]), "");
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace tutti::tests
