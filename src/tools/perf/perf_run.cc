#include "src/tools/perf/perf_run.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "src/tools/common/median.h"
#include "src/tools/common/output_file.h"
#include "src/tools/perf/perf_call.h"
#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {
namespace {

/// What the last of the calls ran. After it, and before any other.
PerfRan ranOf(const Communicator& c, const PerfOptions& o) {
  const plan::PlanSpec* const spec = communicator::Inspection::lastSpec(c);
  // Those with blocks of different sizes are collectives, and have plans.
  if (!spec || (o.exchange && !o.uneven())) return {};
  return {toString(spec->algorithm), toString(spec->protocol), spec->channels};
}

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
    timing.ran = ranOf(c_, o_);
    // A call has taken as long as on its slowest rank.
    c_.allReduce({us.data(), us.data(), us.size(), DataType::Float64, ReduceOp::Max});
    timing.timeUs = medianOf(us).middle;
    std::sort(us.begin(), us.end());
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

/// What rank 0 tells of the rows.
class PerfTeller {
 public:
  PerfTeller(const Communicator& c, const PerfOptions& o, const PerfOutput& output)
      : o_(o), output_(output), place_{c.size(), communicator::Inspection::topology(c).hosts()} {
    printNow(output_.table, perfHeader(o, c.size(), commented(c.describe())));
    if (output_.csv) *output_.csv << perfCsvTitles();
  }

  void tell(const PerfRow& row) const {
    printNow(output_.table, perfLine(o_, row));
    if (output_.json) *output_.json << perfJson(o_, place_, row) << std::flush;
    if (output_.csv) *output_.csv << perfCsv(o_, place_, row) << std::flush;
  }

  void end(const PerfTotals& totals, const std::vector<PerfRow>& rows) const {
    printNow(output_.table, perfFooter(totals, o_.check));
    if (!o_.plotFile.empty()) writePlot(o_.plotFile, plotScript(o_, place_.ranks, rows));
  }

 private:
  const PerfOptions& o_;
  const PerfOutput& output_;
  const PerfPlace place_;
};

}  // namespace

int runPerf(Communicator& c, const PerfOptions& options, const PerfOutput& output) {
  requireFit(options, c);
  std::optional<PerfTeller> teller;
  if (c.rank() == 0) teller.emplace(c, options, output);
  const std::vector<uint64_t> sizes = options.sizes();
  std::vector<std::vector<PerfRow>> measured(sizes.size());  // of each size, by repetition
  std::vector<PerfRow> rows;
  PerfTotals totals;
  for (int repetition = 1; repetition <= options.repetitions; ++repetition)
    for (size_t i = 0; i < sizes.size(); ++i) {
      measured[i].push_back(Measurement(c, options, output, sizes[i]).run());
      if (repetition < options.repetitions) continue;
      rows.push_back(mergedRepetitions(measured[i], busFactor(options.collective, c.size())));
      totals.add(rows.back());
      if (teller) teller->tell(rows.back());
    }
  if (teller) teller->end(totals, rows);
  return totals.wrong() > 0;
}

}  // namespace tutti::tools
