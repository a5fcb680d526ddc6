#include "src/tools/perf/perf_run.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/tools/common/output_file.h"
#include "src/tools/perf/perf_call.h"
#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {
namespace {

/// The measurement of one size.
class Measurement {
 public:
  Measurement(Communicator& c, const PerfOptions& o, const PerfOutput& output, uint64_t bytes)
      : c_(c), o_(o), call_(c, o, output.seam, bytes) {}

  PerfRow run() {
    PerfRow row{.bytes = call_.bytes(), .count = call_.count()};
    row.outOfPlace = time(false);
    if (o_.inPlace()) row.inPlace = time(true);
    return row;
  }

 private:
  // About a tenth of a second of calls, agreed on by all ranks.
  int chooseIterations(double oneUs) {
    int64_t iterations =
        std::clamp<int64_t>(static_cast<int64_t>(1e5 / std::max(oneUs, 0.1)), 5, 2000);
    c_.broadcast({.send = &iterations, .recv = &iterations, .count = 1, .type = DataType::Int64});
    return static_cast<int>(iterations);
  }

  PerfTiming time(bool inPlace) {
    PerfTiming timing;
    if (o_.check) timing.wrong = call_.countWrong(inPlace);
    double last = 0;
    for (int i = 0; i < std::max(1, o_.warmups); ++i) {
      const double begin = nowUs();
      call_.start(inPlace);
      last = nowUs() - begin;
    }
    timing.iterations = o_.iterations > 0 ? o_.iterations : chooseIterations(last);
    std::vector<double> us(static_cast<size_t>(timing.iterations));
    c_.barrier();
    for (double& t : us) {
      const double begin = nowUs();
      call_.start(inPlace);
      t = nowUs() - begin;
    }
    // A call has taken as long as on its slowest rank.
    c_.allReduce({us.data(), us.data(), us.size(), DataType::Float64, ReduceOp::Max});
    std::sort(us.begin(), us.end());
    timing.timeUs = us[us.size() / 2];
    timing.p99Us = us[std::min(us.size() - 1, us.size() * 99 / 100)];
    timing.setBandwidths(call_.bytes(), timing.timeUs, busFactor(o_.collective, c_.size()));
    // Once more, as calls go by now: the executor tunes itself by the first of them.
    if (o_.check) timing.wrong = std::max(timing.wrong, call_.countWrong(inPlace));
    return timing;
  }

  Communicator& c_;
  const PerfOptions& o_;
  PerfCall call_;
};

}  // namespace

int runPerf(Communicator& c, const PerfOptions& options, const PerfOutput& output) {
  requireFit(options, c);
  const bool prints = c.rank() == 0;
  const auto print = [&](const std::string& text) { printNow(output.table, text); };
  if (prints) print(perfHeader(options, c.size(), commented(c.describe())));
  std::vector<PerfRow> rows;
  PerfTotals totals;
  for (const uint64_t bytes : options.sizes()) {
    rows.push_back(Measurement(c, options, output, bytes).run());
    totals.add(rows.back());
    if (!prints) continue;
    print(perfLine(options, rows.back()));
    if (output.json) *output.json << perfJson(options, c.size(), rows.back());
  }
  if (prints) print(perfFooter(totals, options.check));
  if (prints && !options.plotFile.empty())
    writePlot(options.plotFile, plotScript(options, c.size(), rows));
  return totals.wrong() > 0;
}

}  // namespace tutti::tools
