#include "src/tools/perf_check.h"

#include <algorithm>
#include <chrono>
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
  if (options.exchange == Exchange::AllToAllV) {
    const uint64_t unit = elements / (3 * n);
    uint64_t all = 0;
    for (const size_t count : unevenCounts(rank, ranks, unit)) all += count;
    return {unit, all, all, unit};
  }
  const bool gives = plan::givesBlocks(options.collective);
  const bool gets = plan::getsBlocks(options.collective);
  const uint64_t count = gives || gets ? elements / n : elements;
  return {count, gives ? count * n : count, gets ? count * n : count, count};
}

numbers::Pattern PerfPattern::pattern() const {
  return {.type = type, .op = op, .seed = shape.seed, .ranks = ranks};
}

double PerfPattern::scalar() const { return numbers::premulScalar(pattern(), rank); }

void PerfPattern::fillInput(std::byte* in) const {
  numbers::fillInput(pattern(), rank, 0, shape.inCount, in);
}

numbers::Comparison PerfPattern::compare(const std::byte* out) const {
  if (exchange == Exchange::AllToAllV) return compareUneven(out);
  if (exchange == Exchange::SendReceive)
    return numbers::compareWithInput(pattern(), (rank + ranks - 1) % ranks, 0, shape.count, out);
  if (plan::onlyRootGets(collective) && rank != root) return {};
  const size_t own = shape.count * static_cast<size_t>(rank);
  numbers::Pattern upToHere = pattern();
  upToHere.addends = rank + 1;
  switch (collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return numbers::compareWithExpected(pattern(), 0, shape.count, out);
    case Collective::ReduceScatter:
      return numbers::compareWithExpected(pattern(), own, shape.count, out);
    case Collective::Scan: return numbers::compareWithExpected(upToHere, 0, shape.count, out);
    case Collective::Broadcast:
      return numbers::compareWithInput(pattern(), root, 0, shape.count, out);
    case Collective::Scatter:
      return numbers::compareWithInput(pattern(), root, own, shape.count, out);
    case Collective::AllGather:
    case Collective::Gather: return compareBlocks(out, 0);
    case Collective::AllToAll: return compareBlocks(out, own);
    case Collective::Barrier: break;
  }
  return {};
}

numbers::Comparison PerfPattern::compareBlocks(const std::byte* out, size_t from) const {
  numbers::Comparison all;
  for (int r = 0; r < ranks; ++r) {
    const size_t first = shape.count * static_cast<size_t>(r);
    const auto block =
        numbers::compareWithInput(pattern(), r, from, shape.count, out + first * sizeOf(type));
    if (all.wrong == 0 && block.wrong > 0) all.firstWrong = first + block.firstWrong;
    all.wrong += block.wrong;
  }
  return all;
}

numbers::Comparison PerfPattern::compareUneven(const std::byte* out) const {
  numbers::Comparison all;
  size_t first = 0;
  for (int r = 0; r < ranks; ++r) {
    size_t from = 0;  // where our block begins in what `r` sends
    for (int before = 0; before < rank; ++before) from += unevenCount(r, before, shape.count);
    const size_t count = unevenCount(r, rank, shape.count);
    const auto block =
        numbers::compareWithInput(pattern(), r, from, count, out + first * sizeOf(type));
    if (all.wrong == 0 && block.wrong > 0) all.firstWrong = first + block.firstWrong;
    all.wrong += block.wrong;
    first += count;
  }
  return all;
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
