// Random programs of puts, signals and waits against a model: every rank draws the same program,
// makes its own part of it, and compares its buffers with the model's after each round.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <tutti/tutti.h>

#include "tests/communicator/transfers.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

constexpr int kSignals = 3;
constexpr size_t kBuffer = 200'000;
constexpr int kWindows = 3;

struct OneCall {
  int from, to, signal, window;
  size_t offset, bytes;
  uint64_t number;
  bool isSignal;
};

/// The buffers of all ranks as they must be. Puts of different ranks have parts of their own, so
/// that only the order of one rank's puts counts.
struct Model {
  explicit Model(int ranks) : buffers(static_cast<size_t>(ranks) * kWindows, Bytes(kBuffer)) {}
  Bytes& of(int rank, int window) {
    return buffers[static_cast<size_t>(rank) * kWindows + static_cast<size_t>(window)];
  }
  std::vector<Bytes> buffers;
};

std::vector<OneCall> drawRound(std::mt19937_64& random, int ranks) {
  std::vector<OneCall> calls(random() % 40);
  for (OneCall& call : calls) {
    const auto draw = [&](size_t below) { return static_cast<size_t>(random() % below); };
    call.from = static_cast<int>(draw(static_cast<size_t>(ranks)));
    call.to = static_cast<int>(draw(static_cast<size_t>(ranks)));
    call.signal = static_cast<int>(draw(kSignals));
    call.window = static_cast<int>(draw(kWindows));
    call.isSignal = draw(4) == 0;
    const size_t part = kBuffer / static_cast<size_t>(ranks);
    const size_t sizes[] = {0, 1, draw(100), draw(5000), draw(part)};
    call.bytes = call.isSignal ? 0 : sizes[draw(5)];
    call.offset = static_cast<size_t>(call.from) * part + draw(part - call.bytes + 1);
    call.number = random();
  }
  return calls;
}

/// One round as this rank makes it. What it sends stays in `sent` until the round is over.
void run(Communicator& c, const std::vector<Window>& windows, const std::vector<OneCall>& calls,
         std::mt19937_64 own, Model& model) {
  std::vector<Bytes> sent;
  sent.reserve(calls.size());
  Stream streams[2];
  std::map<std::pair<int, int>, uint64_t> expected;  // by peer and signal
  // The calls to one rank are on one stream, in their order.
  for (const OneCall& call : calls) {
    if (call.to == c.rank()) ++expected[{call.from, call.signal}];
    if (call.from != c.rank()) continue;
    const StreamRef to = own() % 2 ? StreamRef(streams[call.to % 2]) : StreamRef();
    if (!to) streams[call.to % 2].synchronize();
    if (call.isSignal) {
      c.signal({.peer = call.to, .signal = call.signal}, to);
      continue;
    }
    sent.push_back(content(call.number, call.bytes));
    c.put({.send = sent.back().data(),
           .count = call.bytes,
           .type = DataType::UInt8,
           .peer = call.to,
           .window = &windows[static_cast<size_t>(call.window)],
           .offset = call.offset,
           .signal = call.signal},
          to);
  }
  std::vector<AwaitedSignals> waits;
  for (const auto& [of, count] : expected) {
    const uint64_t first = own() % (count + 1);
    waits.push_back({of.first, of.second, first});
    waits.push_back({of.first, of.second, count - first});
  }
  std::ranges::shuffle(waits, own);
  const size_t cut = waits.empty() ? 0 : own() % waits.size();
  c.waitSignals({.signals = std::span(waits).first(cut)});
  c.waitSignals({.signals = std::span(waits).subspan(cut)});
  for (Stream& stream : streams) stream.synchronize();
  for (const OneCall& call : calls)
    std::ranges::copy(
        content(call.number, call.bytes),
        model.of(call.to, call.window).begin() + static_cast<std::ptrdiff_t>(call.offset));
}

/// Windows 0 and 2 are memory that ranks of a host share, window 1 is ordinary.
void runProgram(Communicator& c, uint64_t seed, int rounds) {
  std::vector<Memory> memories;
  std::vector<Window> windows;
  for (int w = 0; w < kWindows; ++w) {
    if (w == 1) {
      const auto bytes = std::make_shared<Bytes>(kBuffer);
      memories.emplace_back(bytes->data(), kBuffer, bytes);
    } else {
      memories.push_back(c.allocate(kBuffer));
    }
    windows.push_back(c.window({memories.back().data(), kBuffer}));
  }
  Model model(c.size());
  std::mt19937_64 shared(seed), own(seed + 1 + static_cast<uint64_t>(c.rank()));
  for (int round = 0; round < rounds; ++round) {
    run(c, windows, drawRound(shared, c.size()), std::mt19937_64(own()), model);
    c.barrier();  // nobody puts while others look
    for (int w = 0; w < kWindows; ++w)
      ASSERT_TRUE(
          std::ranges::equal(model.of(c.rank(), w),
                             std::span(memories[static_cast<size_t>(w)].as<uint8_t>(), kBuffer)))
          << "rank " << c.rank() << " round " << round << " window " << w;
    c.barrier();
  }
}

TEST(OneSidedPrograms, GiveWhatTheModelGives) {
  const uint64_t seed = testSeed();
  for (const char* const transport : {"shm", "tcp", "ucx"})
    for (const int size : {1, 2, 3, 5}) {
      auto ranks = Communicator::createLocal(size, {.transport = transport, .signals = kSignals});
      runRanks(ranks,
               [&](Communicator& c) { runProgram(c, seed + static_cast<uint64_t>(size), 8); });
    }
}

}  // namespace
}  // namespace tutti::tests
