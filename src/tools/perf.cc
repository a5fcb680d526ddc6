#include "src/tools/perf.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "collectives/algorithms.h"
#include "src/base/check.h"
#include "src/tools/perf_check.h"
#include "src/tools/perf_options.h"
#include "src/tools/perf_report.h"

namespace tutti::tools {
namespace {

std::optional<Collective> parseCollective(const std::string& name) {
  for (int i = 0; i < plan::kCollectiveCount; ++i)
    if (name == plan::toString(static_cast<Collective>(i))) return static_cast<Collective>(i);
  return std::nullopt;
}

double nowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Buffers of one size, in windows or in ordinary memory.
class Buffer {
 public:
  Buffer(Communicator& c, uint64_t bytes, bool window) {
    if (window)
      memory_ = c.allocate(bytes);
    else
      ordinary_.resize(bytes);
  }
  std::byte* data() { return memory_ ? memory_.as<std::byte>() : ordinary_.data(); }

 private:
  Memory memory_;
  std::vector<std::byte> ordinary_;
};

/// One rank's side of the measurement of one size.
class Measurement {
 public:
  Measurement(Communicator& c, const PerfOptions& o, uint64_t bytes)
      : c_(c),
        o_(o),
        shape_(perfShape(o.collective, c.size(), bytes / sizeOf(o.type))),
        pattern_{o.collective, o.type, o.op, c.rank(), c.size(), o.root, shape_},
        in_(c, shape_.inCount * sizeOf(o.type), o.windows),
        out_(c, shape_.outCount * sizeOf(o.type), o.windows) {}

  PerfRow run() {
    PerfRow row{.bytes = std::max(shape_.inCount, shape_.outCount) * sizeOf(o_.type),
                .count = shape_.count};
    row.outOfPlace = time(row.bytes, false);
    row.inPlace = time(row.bytes, true);
    return row;
  }

 private:
  // In place, the smaller buffer is this rank's block of the larger one.
  std::pair<std::byte*, std::byte*> buffers(bool inPlace) {
    if (!inPlace) return {in_.data(), out_.data()};
    const size_t block = shape_.count * sizeOf(o_.type) * static_cast<size_t>(c_.rank());
    if (o_.collective == Collective::AllGather) return {out_.data() + block, out_.data()};
    if (o_.collective == Collective::ReduceScatter) return {in_.data(), in_.data() + block};
    return {in_.data(), in_.data()};
  }

  void call(bool inPlace) {
    const auto [send, recv] = buffers(inPlace);
    const size_t n = shape_.count;
    switch (o_.collective) {
      case Collective::AllReduce:
        return c_.allReduce({send, recv, n, o_.type, o_.op, pattern_.scalar()});
      case Collective::AllGather: return c_.allGather({send, recv, n, o_.type});
      case Collective::ReduceScatter:
        return c_.reduceScatter({send, recv, n, o_.type, o_.op, pattern_.scalar()});
      case Collective::Broadcast: return c_.broadcast({send, recv, n, o_.type, o_.root});
      case Collective::Reduce:
        return c_.reduce({send, recv, n, o_.type, o_.op, pattern_.scalar(), o_.root});
      case Collective::Barrier: return c_.barrier();
    }
  }

  int64_t countWrong(bool inPlace) {
    const auto [send, recv] = buffers(inPlace);
    pattern_.fillInput(send);
    call(inPlace);
    int64_t wrong = pattern_.countWrong(recv);
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
    if (o_.check && o_.collective != Collective::Barrier) timing.wrong = countWrong(inPlace);
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
    return timing;
  }

  Communicator& c_;
  const PerfOptions& o_;
  const PerfShape shape_;
  const PerfPattern pattern_;
  Buffer in_, out_;
};

// Each line with "# " before it.
std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

int runRank(const PerfOptions& options) {
  Communicator c = Communicator::create(
      {.deterministic = options.deterministic, .algorithm = options.algorithm});
  TUTTI_REQUIRE(options.root >= 0 && options.root < c.size(), "--root ", options.root,
                " is not a rank of 0..", c.size() - 1);
  TUTTI_REQUIRE(options.algorithm.empty() || options.collective == Collective::Barrier ||
                    c.size() == 1 ||
                    collectives::exists(options.algorithm, options.collective, c.size()),
                "--algo ", options.algorithm, " does not exist for ", options.collectiveName,
                " on ", c.size(), " ranks");
  const bool prints = c.rank() == 0;
  std::ofstream json;
  if (prints && !options.jsonFile.empty()) {
    json.open(options.jsonFile);
    TUTTI_REQUIRE(json.good(), "--json ", options.jsonFile, " cannot be written");
  }
  if (prints) {
    std::fputs(perfHeader(options, c.size(), commented(c.describe())).c_str(), stdout);
    std::fflush(stdout);
  }
  std::vector<PerfRow> rows;
  for (const uint64_t bytes : options.sizes()) {
    rows.push_back(Measurement(c, options, bytes).run());
    if (!prints) continue;
    std::fputs(perfLine(options, rows.back()).c_str(), stdout);
    std::fflush(stdout);
    if (json.is_open()) json << perfJson(options, c.size(), rows.back());
  }
  if (prints) std::fputs(perfFooter(rows, options.check).c_str(), stdout);
  return std::any_of(rows.begin(), rows.end(), [](const PerfRow& r) {
    return r.outOfPlace.wrong > 0 || r.inPlace.wrong > 0;
  });
}

}  // namespace

int perfMain(int argc, char** argv) {
  PerfOptions o;
  std::string minBytes = "32M", maxBytes = "32M", step = "0", type = "float32", op = "sum";
  std::string memory = "window";
  CLI::App app{"Time and bandwidth of a collective, with nccl-tests' columns", "tutti perf"};
  app.add_option("collective", o.collectiveName,
                 "all_reduce, all_gather, reduce_scatter, broadcast, reduce or barrier")
      ->required();
  app.add_option("-n,--ranks", o.ranks, "local ranks to start; without it join the launcher's job")
      ->check(CLI::Range(1, 4096));
  app.add_option("-b,--minbytes", minBytes, "smallest size, bytes (K, M, G)");
  app.add_option("-e,--maxbytes", maxBytes, "largest size");
  app.add_option("-f,--stepfactor", o.factor, "ratio of sizes")->check(CLI::Range(1, 1024));
  app.add_option("-i,--stepbytes", step, "distance of sizes, with factor 1");
  app.add_option("-t,--type", type, "element type");
  app.add_option("-o,--op", op, "sum, prod, min, max, avg, premulsum");
  app.add_option("-r,--root", o.root, "root rank");
  app.add_option("--iters", o.iterations, "timed calls per size; 0 chooses")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-w,--warmup", o.warmups, "calls before")->check(CLI::Range(0, 100000));
  app.add_option("-c,--check", o.check, "1 checks every element, 0 does not");
  app.add_option("--algo", o.algorithm, "force an algorithm");
  app.add_option("--memory", memory, "window (from allocate) or ordinary")
      ->check(CLI::IsMember({"window", "ordinary"}));
  app.add_flag("--deterministic", o.deterministic, "deterministic mode");
  app.add_option("--json", o.jsonFile, "also write a JSON line per size to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    const auto collective = parseCollective(o.collectiveName);
    TUTTI_REQUIRE(collective, "there is no collective '", o.collectiveName, "'");
    o.collective = *collective;
    const auto parsedType = parseDataType(type);
    TUTTI_REQUIRE(parsedType, "--type ", type, " is no element type");
    o.type = *parsedType;
    const auto parsedOp = parseReduceOp(op);
    TUTTI_REQUIRE(parsedOp, "--op ", op, " is no reduction");
    o.op = *parsedOp;
    o.minBytes = parseBytes("-b", minBytes);
    o.maxBytes = parseBytes("-e", maxBytes);
    o.stepBytes = parseBytes("-i", step);
    TUTTI_REQUIRE(o.minBytes <= o.maxBytes, "-b ", minBytes, " is larger than -e ", maxBytes);
    o.windows = memory == "window";
    TUTTI_REQUIRE(o.root >= 0 && (o.ranks == 0 || o.root < o.ranks), "--root ", o.root,
                  " is not a rank of 0..", o.ranks - 1);
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti perf: %s\n", e.what());
    return 2;
  }
  try {
    if (o.ranks == 0) return runRank(o);
    // The ranks are this program again, without -n: they join the job that the launcher describes.
    std::vector<std::string> command{"/proc/self/exe", "perf"};
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "-n" || word == "--ranks")
        ++i;
      else if (word.rfind("--ranks=", 0) != 0 && !(word.size() > 2 && word.rfind("-n", 0) == 0))
        command.push_back(word);
    }
    return launch({.command = std::move(command), .ranks = o.ranks, .prefixOutput = false});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti perf: %s\n", e.what());
    return 1;
  }
}

}  // namespace tutti::tools
