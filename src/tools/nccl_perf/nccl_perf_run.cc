#include "src/tools/nccl_perf/nccl_perf_run.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/device/cuda.h"
#include "src/tools/common/output_file.h"
#include "src/tools/nccl_perf/nccl_perf_report.h"
#include "src/tools/perf/perf_call.h"

namespace tutti::tools {
namespace {

/// The measurement of one size, of one type, reduction and root.
class PerfBatch {
 public:
  PerfBatch(Communicator& c, const NcclPerfOptions& o, const PerfOptions& one, const PerfSeam& seam,
            uint64_t bytes, Stream* stream)
      : c_(c), o_(o), one_(one), stream_(stream), call_(c, one, seam, bytes, stream) {}

  PerfRow run() {
    PerfRow row{.bytes = call_.bytes(), .count = call_.count()};
    row.outOfPlace = time(false);
    if (one_.inPlace()) row.inPlace = time(true);
    return row;
  }

 private:
  PerfTiming time(bool inPlace) {
    PerfTiming timing{.iterations = o_.iterations};
    for (int i = 0; i < std::max(1, o_.warmups); ++i) call_.start(inPlace);
    call_.finish();
    const auto work = [&] {
      for (int i = 0; i < o_.iterations; ++i) iterate(inPlace);
    };
    std::unique_ptr<device::Graph> graph;
    if (o_.graphLaunches > 0) {
      graph = device::capture(*stream_, work);
      graph->launch(*stream_);  // what a first launch costs more
      call_.finish();
    }
    c_.barrier();
    const double begin = nowUs();
    if (!graph) work();
    for (int i = 0; i < o_.graphLaunches; ++i) graph->launch(*stream_);
    const double made = nowUs();
    call_.finish();
    const double done = nowUs();
    const double us = ofAllRanks(c_, o_.average, perCall(done - begin));
    timing.timeUs = o_.cpuTime ? ofAllRanks(c_, o_.average, perCall(made - begin)) : us;
    timing.setBandwidths(call_.bytes(), us, busFactor(one_.collective, c_.size()));
    for (int i = 0; i < o_.checks && timing.wrong <= 0; ++i)
      timing.wrong = call_.countWrong(inPlace, static_cast<uint64_t>(i));
    return timing;
  }

  void iterate(bool inPlace) {
    if (o_.aggregated == 1) {
      call_.start(inPlace);
    } else {
      Group group;
      for (int i = 0; i < o_.aggregated; ++i) call_.start(inPlace);
      group.end();
    }
    if (!o_.blocking) return;
    call_.finish();
    c_.barrier();
  }

  double perCall(double us) const {
    return us / o_.iterations / o_.aggregated / std::max(1, o_.graphLaunches);
  }

  Communicator& c_;
  const NcclPerfOptions& o_;
  const PerfOptions& one_;
  Stream* const stream_;
  PerfCall call_;
};

/// Every type, reduction and root to measure, in nccl-tests' order.
std::vector<PerfOptions> combinations(const NcclPerfOptions& o, int ranks) {
  const bool reduces = plan::isReduction(o.perf.collective);
  const bool allRoots = o.perf.hasRoot() && !o.root;
  std::vector<PerfOptions> all;
  for (const DataType type : o.types)
    for (const ReduceOp op : reduces ? o.ops : std::vector{ReduceOp::Sum})
      for (int root = 0; root < (allRoots ? ranks : 1); ++root) {
        all.push_back(o.perf);
        all.back().type = type;
        all.back().op = op;
        all.back().root = allRoots ? root : o.perf.hasRoot() ? *o.root : 0;
      }
  return all;
}

}  // namespace

double ofAllRanks(Communicator& c, PerfAverage average, double us) {
  const auto reduce = [&](ReduceOp op) {
    c.allReduce({.send = &us, .recv = &us, .count = 1, .type = DataType::Float64, .op = op});
  };
  switch (average) {
    case PerfAverage::RankZero:
      c.broadcast({.send = &us, .recv = &us, .count = 1, .type = DataType::Float64});
      break;
    case PerfAverage::Mean: reduce(ReduceOp::Avg); break;
    case PerfAverage::Least: reduce(ReduceOp::Min); break;
    case PerfAverage::Most: reduce(ReduceOp::Max); break;
  }
  return us;
}

int runNcclPerf(Communicator& c, const NcclPerfOptions& options, const PerfOutput& output) {
  const std::vector<PerfOptions> all = combinations(options, c.size());
  for (const PerfOptions& one : all) requireFit(one, c);
  const bool prints = c.rank() == 0;
  const auto print = [&](const std::string& text) {
    if (prints) printNow(output.table, text);
  };
  print(ncclPerfHeader(options, c.describe()));
  std::optional<Stream> stream;
  if (!options.completesCalls()) stream.emplace(c.device());
  std::vector<NcclPerfRow> rows;
  PerfTotals totals;
  for (const PerfOptions& one : all)
    for (int cycle = 0; cycle < options.cycles || options.cycles == 0; ++cycle)
      for (const uint64_t bytes : one.sizes()) {
        PerfBatch batch(c, options, one, output.seam, bytes, stream ? &*stream : nullptr);
        const NcclPerfRow row{one.type, one.op, one.root, batch.run()};
        totals.add(row.times);
        print(ncclPerfLine(options, row));
        if (output.json) rows.push_back(row);
      }
  print(perfFooter(totals, options.checks > 0));
  if (prints && output.json) *output.json << ncclPerfJson(options, c.size(), rows, totals);
  return totals.wrong() > 0;
}

}  // namespace tutti::tools
