#include "src/tools/tune/tune.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <memory>
#include <sstream>
#include <vector>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "collectives/regret.h"
#include "src/base/check.h"
#include "src/base/one_of.h"
#include "src/base/table.h"
#include "src/communicator/inspection.h"
#include "src/communicator/settings.h"
#include "src/tools/common/algorithm_times.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/common/machine_use.h"
#include "src/tools/common/median.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/read_json.h"
#include "src/tools/common/units.h"
#include "src/tools/common/values.h"
#include "src/tools/tune/tune_record.h"

namespace tutti::tools {
namespace {

using collectives::MeasuredCall;
using communicator::Inspection;
using plan::Collective;
using topology::Tuning;

constexpr uint64_t kLargestBlock = 64 << 20;
constexpr const char* kBlocks = "8,512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M";

/// The powers of two below `ranks`, and `ranks`.
std::vector<int> groupSizes(int ranks) {
  std::vector<int> sizes;
  for (int k = 2; k < ranks; k *= 2) sizes.push_back(k);
  if (ranks > 1) sizes.push_back(ranks);
  return sizes;
}

Verdict judge(const MeasuredCall& call, const std::map<std::string, AlgorithmTime>& times) {
  Verdict verdict{.call = call};
  const AlgorithmTime* best = nullptr;
  for (const auto& [name, time] : times) {
    if (name == kChosen) continue;
    verdict.call.microseconds[name] = time.median();
    if (!best || time.median() < best->median()) best = &time;
  }
  if (!best) return verdict;
  const AlgorithmTime& chosen = times.at(kChosen);
  std::vector<double> ratios;
  for (size_t i = 0; i < chosen.turns.size(); ++i)
    ratios.push_back(chosen.turns[i] / best->turns[i]);
  const MedianInterval ratio = medianOf(std::move(ratios));
  verdict.ratio = ratio.middle;
  verdict.leastRatio = ratio.least;
  return verdict;
}

const char* memoryName(bool windows) { return windows ? "windows" : "ordinary memory"; }

/// Measures all collectives but the barrier, for ever larger parts of the job.
class Tuner {
 public:
  Tuner(Communicator& c, const TuneOptions& o, std::ostream* record)
      : c_(c), o_(o), record_(record) {}

  std::vector<Verdict> run() {
    for (const int size : groupSizes(c_.size())) {
      // One for each kind of memory: what calls on the other kind have found does not count.
      for (const bool windows : {true, false}) {
        if (windows ? !o_.windows : !o_.ordinary) continue;
        auto part = c_.split(c_.rank() < size ? 0 : -1, c_.rank());
        if (part) measure(*part, windows);
        c_.barrier();
      }
    }
    return std::move(verdicts_);
  }

 private:
  void measure(Communicator& part, bool windows) {
    if (part.rank() == 0)
      std::fprintf(stderr, "tutti tune: %s, %s\n", Inspection::topology(part).describe().c_str(),
                   memoryName(windows));
    AlgorithmTimes times(part);
    for (int i = 0; i < plan::kCollectiveCount; ++i)
      if (const auto collective = static_cast<Collective>(i); collective != Collective::Barrier)
        measure(part, times, {.collective = collective, .windows = windows});
  }

  void measure(Communicator& part, AlgorithmTimes& times, const PerfOptions& options) {
    AlgorithmTime asking;
    if (!options.windows) asking = times.asking(options, 3 * o_.turns);
    for (const uint64_t bytes : o_.blockBytes) {
      MeasuredCall call;
      call.request.collective = options.collective;
      call.request.count = bytes / sizeOf(call.request.type);
      call.topology = Inspection::topology(part);
      call.windows = options.windows;
      if (!asking.turns.empty()) call.policyMicroseconds = asking.median();
      verdicts_.push_back(judge(call, times.measure(options, bytes, o_.turns)));
      if (record_) *record_ << jsonOf(verdicts_.back()) << std::flush;
    }
  }

  Communicator& c_;
  const TuneOptions& o_;
  std::ostream* const record_;
  std::vector<Verdict> verdicts_;
};

std::string lineOf(const Verdict& v) {
  const auto best = std::ranges::min_element(v.call.microseconds, {},
                                             [](const auto& entry) { return entry.second; });
  return base::message(std::setw(5), base::fixed(v.ratio, 2), " times ", best->first, "'s ",
                       base::fixed(best->second, 1),
                       " us: ", plan::toString(v.call.request.collective), " of blocks of ",
                       v.call.request.blockBytes(), " bytes on ", v.call.topology.ranks, " ranks, ",
                       memoryName(v.call.windows), "\n");
}

void report(std::vector<Verdict> verdicts) {
  constexpr size_t kShown = 5;
  double sum = 0;
  for (const Verdict& v : verdicts) sum += v.ratio;
  std::ranges::sort(verdicts, std::greater<>(), &Verdict::ratio);
  std::fprintf(stderr,
               "tutti tune: %zu calls; what was chosen took %.3f times the best one's time"
               " in the mean, and in the worst cases:\n",
               verdicts.size(), sum / static_cast<double>(verdicts.size()));
  for (size_t i = 0; i < std::min(kShown, verdicts.size()); ++i)
    std::fputs(("  " + lineOf(verdicts[i])).c_str(), stderr);
}

void writeConstants(const TuneOptions& o, const Tuning& tuning, const std::string& remark) {
  const std::string text = "# TUTTI_TUNING: " + remark + "\n" + tuning.text();
  if (o.file.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  writeFile("-o", o.file, text);
}

/// Finds the constants and writes them. `beside`: what else the machine did, if anything.
void fitTo(const std::vector<Verdict>& verdicts, const Tuning& before, const TuneOptions& o,
           const std::string& beside) {
  std::vector<MeasuredCall> calls;
  for (const Verdict& v : verdicts) calls.push_back(v.call);
  const Tuning fitted = collectives::fit(calls, before);
  const auto was = collectives::regrets(calls, before), is = collectives::regrets(calls, fitted);
  const std::string remark = base::message(
      "by these medians choices take ", base::fixed(is.mean, 3), " times the best in the mean and ",
      base::fixed(is.worst, 2), " at worst; before ", base::fixed(was.mean, 3), " and ",
      base::fixed(was.worst, 2));
  sayError("tutti tune", remark);
  writeConstants(o, fitted, beside.empty() ? remark : base::message(remark, "; ", beside));
}

/// None where none is asked for. What is written at the end can be written, too: nothing that was
/// measured may be lost for that.
std::unique_ptr<OutputFile> openOutputs(const TuneOptions& o) {
  if (!o.file.empty() && !o.check) requireWritable("-o", o.file);
  return o.record.empty() ? nullptr : std::make_unique<OutputFile>("--record", o.record);
}

int runRank(const TuneOptions& o) {
  const auto launched = launchedRank();
  const bool first = !launched || launched->rank == 0;
  std::unique_ptr<OutputFile> record;
  if (first) record = openOutputs(o);
  requireNothingForced();
  Communicator c = Communicator::create();
  TUTTI_REQUIRE(c.size() > 1, "there is nothing to choose for one rank: -n N starts several");
  MachineUse use(c);
  const auto verdicts = Tuner(c, o, record ? &record->stream() : nullptr).run();
  if (record) record->commit();
  const std::string beside =
      busyText(use.coresOfOthers(), static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if (c.rank() != 0) return 0;
  report(verdicts);
  if (!beside.empty())
    std::fprintf(stderr,
                 "tutti tune: %s, which makes what was measured doubtful: measure again with "
                 "nothing beside it\n",
                 beside.c_str());
  if (!o.check) fitTo(verdicts, Inspection::tuning(c), o, beside);
  return 0;
}

/// What several recordings say together.
std::vector<Verdict> readRecords(const std::vector<std::string>& names) {
  std::vector<MeasuredCall> calls;
  for (const std::string& name : names) {
    std::istringstream lines = jsonLinesOf("--from", name);
    for (Verdict& v : readRecord(lines, name)) calls.push_back(std::move(v.call));
  }
  TUTTI_REQUIRE(!calls.empty(), "--from: nothing was recorded in ", names.front());
  const Tuning own = communicator::ownTuning();
  std::vector<Verdict> verdicts;
  for (MeasuredCall& call : collectives::merged(calls)) {
    const double ratio = collectives::regret(call, own);
    verdicts.push_back({.call = std::move(call), .ratio = ratio, .leastRatio = ratio});
  }
  return verdicts;
}

int fitRecords(const TuneOptions& o) {
  const std::vector<Verdict> verdicts = readRecords(o.from);
  if (const auto record = openOutputs(o)) {
    for (const Verdict& v : verdicts) record->stream() << jsonOf(v);
    record->commit();
  }
  report(verdicts);
  if (!o.check) fitTo(verdicts, communicator::ownTuning(), o, "");
  return 0;
}

int run(const TuneOptions& o, int argc, char** argv) {
  if (!o.from.empty()) return fitRecords(o);
  return o.ranks == 0 ? runRank(o) : launchRanks("tune", o.ranks, argc, argv);
}

/// "8,1K,4M"
std::vector<uint64_t> blockSizes(const std::string& list) {
  std::vector<uint64_t> sizes;
  for (const std::string& one : parseList("--blocks", list)) {
    sizes.push_back(parseBytes("--blocks", one));
    TUTTI_REQUIRE(sizes.back() >= 4 && sizes.back() % 4 == 0 && sizes.back() <= kLargestBlock,
                  "--blocks ", one, " is not a multiple of 4 up to 64M");
  }
  TUTTI_REQUIRE(!sizes.empty(), "--blocks names no size");
  return sizes;
}

}  // namespace

std::variant<TuneOptions, int> parseTune(int argc, const char* const* argv) {
  TuneOptions o;
  std::string memory = "both", blocks = kBlocks;
  CommandLine app(
      "Measures the algorithms of all collectives and fits the chooser's constants to them",
      "tutti tune");
  app.add_option("-n,--ranks", o.ranks, "local ranks to start; without it join the launcher's job")
      ->check(CLI::Range(2, 256))
      ->default_str("");
  app.addOutput("-o,--output", o.file,
                "file for the constants, to be named by TUTTI_TUNING; without it standard output");
  app.addOutput("--record", o.record,
                "file for the measurements, a JSON line each; with --from for what the recordings "
                "say together");
  app.add_option("--from", o.from,
                 "fit to what was recorded before, and measure nothing; of what was recorded "
                 "several times, to the median")
      ->excludes("-n")
      ->default_str("");
  app.add_option("--turns", o.turns, "of each algorithm, for each call")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--check", o.check, "only measure how good the choices are now");
  app.add_option("--memory", memory, "window (from allocate), ordinary, or both")
      ->check(base::oneOf({"window", "ordinary", "both"}));
  app.add_option("--blocks", blocks, "bytes of the blocks to measure");
  if (const auto code = app.read(argc, argv)) return *code;
  o.windows = memory != "ordinary";
  o.ordinary = memory != "window";
  o.blockBytes = blockSizes(blocks);
  TUTTI_REQUIRE(o.check || !o.file.empty() || !isStandardOutput(o.record),
                "--record - and the constants cannot both be standard output: -o FILE");
  TUTTI_REQUIRE(!o.check || o.file.empty(), "--check writes no constants: not with -o ", o.file);
  return o;
}

int tuneMain(int argc, char** argv) {
  return runProgram<TuneOptions>(
      "tutti tune", [&] { return parseTune(argc, argv); },
      [&](const TuneOptions& options) { return run(options, argc, argv); }, 1);
}

}  // namespace tutti::tools
