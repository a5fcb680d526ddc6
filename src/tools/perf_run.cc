#include "src/tools/perf_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>

#include <tutti/tutti.h>

#include "collectives/algorithms.h"
#include "src/base/check.h"
#include "src/plan/hosts.h"
#include "src/tools/perf_check.h"
#include "src/tools/perf_plot.h"
#include "src/tools/perf_report.h"

namespace tutti::tools {
namespace {

double nowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Buffers of one size, in windows or in ordinary memory.
class Buffer {
 public:
  Buffer(Communicator& c, uint64_t bytes, bool window) : bytes_(bytes) {
    if (window)
      memory_ = c.allocate(bytes);
    else
      ordinary_.resize(bytes);
  }
  std::byte* data() { return memory_ ? memory_.as<std::byte>() : ordinary_.data(); }
  /// Overwrites what a call before may have left here, which could pass for a result.
  void spoil() {
    if (bytes_ > 0) std::memset(data(), 0xA5, bytes_);
  }

 private:
  const uint64_t bytes_;
  Memory memory_;
  std::vector<std::byte> ordinary_;
};

/// One rank's side of the measurement of one size.
class Measurement {
 public:
  Measurement(Communicator& c, const PerfOptions& o, const PerfOutput& output, uint64_t bytes)
      : c_(c),
        o_(o),
        output_(output),
        shape_(perfShape(o, c.rank(), c.size(), bytes / sizeOf(o.type))),
        pattern_{o.collective, o.exchange, o.type, o.op, c.rank(), c.size(), o.root, shape_},
        uneven_(unevenCounts(c.rank(), c.size(), shape_.count)),
        in_(c, shape_.inCount * sizeOf(o.type), o.windows),
        out_(c, shape_.outCount * sizeOf(o.type), o.windows) {}

  PerfRow run() {
    PerfRow row{.bytes = std::max(shape_.inCount, shape_.outCount) * sizeOf(o_.type),
                .count = shape_.count};
    row.outOfPlace = time(row.bytes, false);
    if (o_.inPlace()) row.inPlace = time(row.bytes, true);
    return row;
  }

 private:
  // In place, the smaller buffer is this rank's block of the larger one.
  std::pair<std::byte*, std::byte*> buffers(bool inPlace) {
    if (!inPlace) return {in_.data(), out_.data()};
    const size_t block = shape_.count * sizeOf(o_.type) * static_cast<size_t>(c_.rank());
    if (shape_.inCount < shape_.outCount) return {out_.data() + block, out_.data()};
    if (shape_.inCount > shape_.outCount) return {in_.data(), in_.data() + block};
    return {in_.data(), in_.data()};
  }

  void call(bool inPlace) {
    const auto [send, recv] = buffers(inPlace);
    const size_t n = shape_.count;
    if (o_.exchange) return exchange(send, recv);
    switch (o_.collective) {
      case Collective::AllReduce:
        return c_.allReduce({send, recv, n, o_.type, o_.op, pattern_.scalar()});
      case Collective::AllGather: return c_.allGather({send, recv, n, o_.type});
      case Collective::ReduceScatter:
        return c_.reduceScatter({send, recv, n, o_.type, o_.op, pattern_.scalar()});
      case Collective::Broadcast: return c_.broadcast({send, recv, n, o_.type, o_.root});
      case Collective::Reduce:
        return c_.reduce({send, recv, n, o_.type, o_.op, pattern_.scalar(), o_.root});
      case Collective::Gather: return c_.gather({send, recv, n, o_.type, o_.root});
      case Collective::Scatter: return c_.scatter({send, recv, n, o_.type, o_.root});
      case Collective::AllToAll: return c_.allToAll({send, recv, n, o_.type});
      case Collective::Scan: return c_.scan({send, recv, n, o_.type, o_.op, pattern_.scalar()});
      case Collective::Barrier: return c_.barrier();
    }
  }

  void exchange(const std::byte* send, std::byte* recv) {
    switch (*o_.exchange) {
      case Exchange::SendReceive: return sendToNext(send, recv);
      case Exchange::AllToAllV:
        return c_.allToAllV({.send = send,
                             .sendCounts = uneven_,
                             .recv = recv,
                             .recvCounts = uneven_,
                             .type = o_.type});
      case Exchange::HyperCube: return hyperCube(send, recv);
    }
  }

  void sendToNext(const std::byte* send, std::byte* recv) {
    const int n = c_.size(), next = (c_.rank() + 1) % n, before = (c_.rank() + n - 1) % n;
    Group group;
    c_.send({.send = send, .count = shape_.count, .type = o_.type, .peer = next});
    c_.receive({.recv = recv, .count = shape_.count, .type = o_.type, .peer = before});
    group.end();
  }

  // Ranks that differ in one bit exchange all blocks that they have.
  void hyperCube(const std::byte* send, std::byte* recv) {
    const size_t block = shape_.count * sizeOf(o_.type);
    const auto rank = static_cast<size_t>(c_.rank());
    if (block > 0 && send != recv + rank * block) std::memcpy(recv + rank * block, send, block);
    for (size_t bit = 1; bit < static_cast<size_t>(c_.size()); bit *= 2) {
      const size_t own = rank & ~(bit - 1), theirs = own ^ bit;
      const int peer = static_cast<int>(rank ^ bit);
      Group group;
      c_.send({recv + own * block, bit * shape_.count, o_.type, peer});
      c_.receive({recv + theirs * block, bit * shape_.count, o_.type, peer});
      group.end();
    }
  }

  int64_t countWrong(bool inPlace) {
    const auto [send, recv] = buffers(inPlace);
    const auto checkedCall = [&, result = recv] {
      if (!output_.seam) return call(inPlace);
      output_.seam([&] { call(inPlace); }, result, shape_.outCount * sizeOf(o_.type));
    };
    if (o_.collective == Collective::Barrier) return countEarlyLeaves(c_, checkedCall);
    in_.spoil();
    out_.spoil();
    pattern_.fillInput(send);
    checkedCall();
    const numbers::Comparison found = pattern_.compare(recv);
    if (found.wrong > 0)
      std::fprintf(stderr,
                   "tutti perf: rank %d%s: %zu elements of %zu are wrong, the first is %zu\n",
                   c_.rank(), inPlace ? ", in place" : "", found.wrong,
                   static_cast<size_t>(shape_.outCount), found.firstWrong);
    auto wrong = static_cast<int64_t>(found.wrong);
    c_.allReduce({.send = &wrong, .recv = &wrong, .count = 1, .type = DataType::Int64});
    return wrong;
  }

  // About a tenth of a second of calls, agreed on by all ranks.
  int chooseIterations(double oneUs) {
    int64_t iterations =
        std::clamp<int64_t>(static_cast<int64_t>(1e5 / std::max(oneUs, 0.1)), 5, 2000);
    c_.broadcast({.send = &iterations, .recv = &iterations, .count = 1, .type = DataType::Int64});
    return static_cast<int>(iterations);
  }

  PerfTiming time(uint64_t bytes, bool inPlace) {
    PerfTiming timing;
    if (o_.check) timing.wrong = countWrong(inPlace);
    double last = 0;
    for (int i = 0; i < std::max(1, o_.warmups); ++i) {
      const double begin = nowUs();
      call(inPlace);
      last = nowUs() - begin;
    }
    timing.iterations = o_.iterations > 0 ? o_.iterations : chooseIterations(last);
    std::vector<double> us(static_cast<size_t>(timing.iterations));
    c_.barrier();
    for (double& t : us) {
      const double begin = nowUs();
      call(inPlace);
      t = nowUs() - begin;
    }
    // A call has taken as long as on its slowest rank.
    c_.allReduce({us.data(), us.data(), us.size(), DataType::Float64, ReduceOp::Max});
    std::sort(us.begin(), us.end());
    timing.medianUs = us[us.size() / 2];
    timing.p99Us = us[std::min(us.size() - 1, us.size() * 99 / 100)];
    timing.algorithmGBps = static_cast<double>(bytes) / timing.medianUs / 1e3;
    timing.busGBps = timing.algorithmGBps * busFactor(o_.collective, c_.size());
    // Once more, as calls go by now: the executor tunes itself by the first of them.
    if (o_.check) timing.wrong = std::max(timing.wrong, countWrong(inPlace));
    return timing;
  }

  Communicator& c_;
  const PerfOptions& o_;
  const PerfOutput& output_;
  const PerfShape shape_;
  const PerfPattern pattern_;
  const std::vector<size_t> uneven_;  // of alltoallv, by peer
  Buffer in_, out_;
};

// Each line with "# " before it.
std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

void requireFit(const PerfOptions& options, const Communicator& c) {
  const int ranks = c.size();
  TUTTI_REQUIRE(options.exchange != Exchange::HyperCube || (ranks & (ranks - 1)) == 0,
                "hypercube needs a power of two of ranks, not ", ranks);
  TUTTI_REQUIRE(options.root < ranks, "--root ", options.root, " is not a rank of 0..", ranks - 1);
  TUTTI_REQUIRE(options.algorithm.empty() || ranks == 1 ||
                    collectives::exists(options.algorithm, options.collective, ranks,
                                        plan::hostsInOrder(c.hosts())),
                "--algo ", options.algorithm, " does not exist for ", options.collectiveName,
                " on ", ranks, " ranks of ", 1 + std::ranges::max(c.hosts()), " host",
                std::ranges::max(c.hosts()) == 0 ? "" : "s");
}

}  // namespace

int runPerf(Communicator& c, const PerfOptions& options, const PerfOutput& output) {
  requireFit(options, c);
  const bool prints = c.rank() == 0;
  const auto print = [&](const std::string& text) {
    std::fputs(text.c_str(), output.table);
    std::fflush(output.table);
  };
  if (prints) print(perfHeader(options, c.size(), commented(c.describe())));
  std::vector<PerfRow> rows;
  for (const uint64_t bytes : options.sizes()) {
    rows.push_back(Measurement(c, options, output, bytes).run());
    if (!prints) continue;
    print(perfLine(options, rows.back()));
    if (output.json) *output.json << perfJson(options, c.size(), rows.back());
  }
  if (prints) print(perfFooter(rows, options.check));
  if (prints && !options.plotFile.empty())
    writePlot(options.plotFile, plotScript(options, c.size(), rows));
  if (prints && output.json && !output.json->flush())
    base::fail(ErrorCode::System, "--json ", options.jsonFile, " did not take what was measured");
  return std::ranges::any_of(rows, [](const PerfRow& r) {
    return r.outOfPlace.wrong > 0 || (r.inPlace && r.inPlace->wrong > 0);
  });
}

}  // namespace tutti::tools
