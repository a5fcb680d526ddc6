#include "src/tools/perf/perf_check.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "src/numbers/fill.h"

namespace tutti::tools {

std::vector<size_t> unevenCounts(int rank, int ranks, uint64_t unit) {
  std::vector<size_t> counts;
  for (int peer = 0; peer < ranks; ++peer) counts.push_back(unevenCount(rank, peer, unit));
  return counts;
}

PerfShape perfShape(const PerfOptions& options, int rank, int ranks, uint64_t elements) {
  const uint64_t n = static_cast<uint64_t>(ranks);
  if (options.collective == Collective::Barrier) return {};
  const bool gives = plan::givesBlocks(options.collective);
  const bool gets = plan::getsBlocks(options.collective);
  if (options.exchange == PerfExchange::AllToAllV || options.uneven()) {
    const uint64_t unit = elements / (3 * n);
    const auto counts = unevenCounts(options.uneven() ? 0 : rank, ranks, unit);
    const uint64_t block = counts[static_cast<size_t>(rank)];
    const uint64_t all = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    return {unit, gives ? all : block, gets ? all : block, unit,
            std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0})};
  }
  const uint64_t count = gives || gets ? elements / n : elements;
  return {count, gives ? count * n : count, gets ? count * n : count, count,
          count * static_cast<uint64_t>(rank)};
}

numbers::FillPattern PerfPattern::pattern() const {
  return {.type = type, .op = op, .seed = shape.seed, .ranks = ranks};
}

double PerfPattern::scalar() const { return numbers::premulScalar(pattern(), rank); }

void PerfPattern::fillInput(std::byte* in) const {
  numbers::fillInput(pattern(), rank, 0, shape.inCount, in);
}

numbers::Comparison PerfPattern::compare(const std::byte* out) const {
  const auto sameBlock = [&](size_t from) {
    return [this, from](int) { return Block{from, shape.count}; };
  };
  if (exchange == PerfExchange::AllToAllV)
    return compareBlocks(out, [this](int r) { return unevenBlock(r); });
  if (exchange == PerfExchange::AllGatherV)
    return compareBlocks(out, [this](int r) { return Block{0, unevenCount(0, r, shape.count)}; });
  if (exchange == PerfExchange::SendReceive)
    return numbers::compareWithInput(pattern(), (rank + ranks - 1) % ranks, 0, shape.count, out);
  if (plan::onlyRootGets(collective) && rank != root) return {};
  numbers::FillPattern upToHere = pattern();
  upToHere.addends = rank + 1;
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return numbers::compareWithExpected(pattern(), 0, shape.count, out);
    case Collective::ReduceScatter:
      return numbers::compareWithExpected(pattern(), shape.own, shape.outCount, out);
    case Collective::Scan: return numbers::compareWithExpected(upToHere, 0, shape.count, out);
    case Collective::Broadcast:
      return numbers::compareWithInput(pattern(), root, 0, shape.count, out);
    case Collective::Scatter:
      return numbers::compareWithInput(pattern(), root, shape.own, shape.count, out);
    case Collective::AllGather:
    case Collective::Gather: return compareBlocks(out, sameBlock(0));
    case Collective::AllToAll: return compareBlocks(out, sameBlock(shape.own));
    case Collective::Barrier: break;
  }
  return {};
}

numbers::Comparison PerfPattern::compareBlocks(
    const std::byte* out, const std::function<Block(int rank)>& blockOf) const {
  numbers::Comparison all;
  size_t first = 0;
  for (int r = 0; r < ranks; ++r) {
    const auto [from, count] = blockOf(r);
    const auto block =
        numbers::compareWithInput(pattern(), r, from, count, out + first * sizeOf(type));
    if (all.wrong == 0 && block.wrong > 0) all.firstWrong = first + block.firstWrong;
    all.wrong += block.wrong;
    first += count;
  }
  return all;
}

PerfPattern::Block PerfPattern::unevenBlock(int from) const {
  size_t before = 0;
  for (int r = 0; r < rank; ++r) before += unevenCount(from, r, shape.count);
  return {before, unevenCount(from, rank, shape.count)};
}

int64_t countEarlyLeaves(Communicator& c, const std::function<void()>& barrier) {
  const auto nowNs = [] {
    return static_cast<int64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                std::chrono::nanoseconds(1));
  };
  constexpr int kMostLate = 8;
  const int step = std::max(1, c.size() / kMostLate);
  int64_t early = 0;
  for (int late = 0; late < c.size(); late += step) {
    if (c.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int64_t lastCame = nowNs();
    barrier();
    const int64_t left = nowNs();
    c.allReduce({.send = &lastCame,
                 .recv = &lastCame,
                 .count = 1,
                 .type = DataType::Int64,
                 .op = ReduceOp::Max});
    early += left < lastCame;
  }
  c.allReduce({.send = &early, .recv = &early, .count = 1, .type = DataType::Int64});
  return early;
}

}  // namespace tutti::tools
