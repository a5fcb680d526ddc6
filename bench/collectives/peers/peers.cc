// Collectives of float32 among ranks of this host, against MPI and Gloo. The jobs of a number of
// ranks are started once; for each size they take turns, block by block, and a block's ratio is
// between neighbours in time. A call begins at one time on all ranks, by their clock, and lasts
// until the last of them has returned; a block is the median of its calls. Buffers are rewritten
// and read by their owner between calls, which checks every element. Each row has the one-way
// latency of a flag, and for two ranks what loads and stores take, at that moment: virtual machines
// move their cores near and far, and results in the caches move with them.
//
//   peers [--quick] [--json FILE] [--svg FILE] [--ranks 2,4,8] [--min 8] [--max 256M]

#include <signal.h>
#include <tutti/version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>
#include <sstream>

#include "bench/collectives/peers/limits.h"
#include "bench/collectives/peers/measure.h"
#include "bench/collectives/peers/report.h"
#include "src/base/cores.h"
#include "src/base/read_text.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/units.h"
#include "src/tools/common/values.h"

namespace tutti::bench {
namespace {

namespace fs = std::filesystem;
constexpr const char* kProgram = "peers";

struct Options {
  std::vector<std::string> collectives = collectiveNames(), memory{"allocate", "ordinary"}, only;
  std::vector<int> ranks{2, 4, 8};
  uint64_t least = 8, most = 256 << 20, factor = 8;
  int blocks = 15;
  uint32_t calls = 1000;
  double minutes = 60;
  std::string json, svg, commit;
  Places places;
};

/// The words of the command line, before they are looked at.
struct Words {
  std::string least = "8", most = "256M", ranks = "2,4,8", collectives,
              memory = "allocate,ordinary", only, bin, peers;
  int factor = 8, blocks = 15;
  int calls = 1000;
  double minutes = 60;
  bool quick = false;
};

std::vector<std::string> namesOf(const std::string& flag, const std::string& text,
                                 const std::vector<std::string>& known) {
  const std::vector<std::string> words = tools::parseList(flag, text);
  for (const std::string& word : words) tools::requireName(flag, word, known);
  std::vector<std::string> once;  // in the order in which they are known
  for (const std::string& name : known)
    if (std::ranges::find(words, name) != words.end()) once.push_back(name);
  return once;
}

std::vector<std::string> peerNames() {
  std::vector<std::string> names;
  for (const Contender& c : contenders({})) names.push_back(c.name);
  names.erase(names.begin());
  return names;
}

void addFlags(tools::CommandLine& app, Words& w, Options& o) {
  app.add_option("--min", w.least, "smallest message: bytes of a rank's larger buffer");
  app.add_option("--max", w.most, "largest message");
  app.add_option("--factor", w.factor, "between sizes")->check(CLI::Range(2, 1 << 20));
  app.add_option("--ranks", w.ranks, "a list");
  app.add_option("--collectives", w.collectives,
                 "a list of " + base::listOfNames(collectiveNames()));
  app.add_option("--memory", w.memory, "of Tutti's buffers: a list of allocate and ordinary");
  app.add_option("--only", w.only,
                 "peers that take part: none, or a list of " + base::listOfNames(peerNames()));
  app.add_option("--blocks", w.blocks, "turns of each; fewer, but at least 6, where calls are long")
      ->check(CLI::Range(kLeastBlocks, 1000));
  app.add_option("--calls", w.calls, "timed calls of a turn, at most")
      ->check(CLI::Range(1, 100000));
  app.add_option("--minutes", w.minutes, "for all; rows that have no time are left out")
      ->check(CLI::Range(0.001, 10000.0));
  app.add_flag("--quick", w.quick,
               "--ranks 2 --max 16M --factor 64 --blocks 6 --minutes 2, where these are not given");
  app.addOutput("--json", o.json,
                "all of it, written row by row; rows that the file has of the same settings are "
                "kept, and it goes on with the others");
  app.addOutput("--svg", o.svg, "the ratios as a picture");
  app.add_option("--commit", o.commit, "what was built, for the results");
  app.add_option("--bin", w.bin, "where the workers and the tutti command are")
      ->default_str("this program's folder");
  app.add_option("--peers", w.peers, "where make bench-peers has installed peers")
      ->default_str("peers beside that folder");
}

void makeQuick(const tools::CommandLine& app, Words& w) {
  const auto isFree = [&](const char* flag) { return app.get_option(flag)->count() == 0; };
  if (isFree("--ranks")) w.ranks = "2";
  if (isFree("--max")) w.most = "16M";
  if (isFree("--factor")) w.factor = 64;
  if (isFree("--blocks")) w.blocks = 6;
  if (isFree("--minutes")) w.minutes = 2;
}

void settle(const Words& w, Options& o) {
  o.least = tools::parseBytes("--min", w.least);
  o.most = tools::parseBytes("--max", w.most);
  TUTTI_REQUIRE(o.least >= sizeof(float), "--min ", w.least, ": an element of float32 has 4 bytes");
  TUTTI_REQUIRE(o.most >= o.least, "--max ", w.most, " is less than --min ", w.least);
  constexpr uint64_t kMost = uint64_t{4} << 30;  // elements are counted in int by MPI
  TUTTI_REQUIRE(o.most <= kMost, "--max ", w.most, " is more than 4G");
  o.ranks.clear();
  for (const std::string& word : tools::parseList("--ranks", w.ranks))
    o.ranks.push_back(static_cast<int>(tools::parseWhole("--ranks", word, 2, 64)));
  if (!w.collectives.empty())
    o.collectives = namesOf("--collectives", w.collectives, collectiveNames());
  o.memory = namesOf("--memory", w.memory, {"allocate", "ordinary"});
  o.only = w.only.empty()     ? peerNames()
           : w.only == "none" ? std::vector<std::string>{}
                              : namesOf("--only", w.only, peerNames());
  o.factor = static_cast<uint64_t>(w.factor);
  o.blocks = w.blocks;
  o.calls = static_cast<uint32_t>(w.calls);
  o.minutes = w.minutes;
  const fs::path own = fs::canonical("/proc/self/exe").parent_path();
  o.places.bin = fs::absolute(w.bin.empty() ? own : fs::path(w.bin));
  o.places.peers = fs::absolute(w.peers.empty() ? own.parent_path() / "peers" : fs::path(w.peers));
}

std::variant<Options, int> parse(int argc, char** argv) {
  Options options;
  Words words;
  tools::CommandLine app("Collectives among ranks of this host, in turns with MPI and Gloo",
                         kProgram);
  app.set_version_flag("--version", "peers (Tutti) " TUTTI_VERSION);
  addFlags(app, words, options);
  if (const auto code = app.read(argc, argv)) return *code;
  if (words.quick) makeQuick(app, words);
  settle(words, options);
  return options;
}

/// Each rank's block has an element where there are blocks.
uint64_t bytesOf(worker_collective collective, int ranks, uint64_t bytes) {
  const bool hasBlocks = collective == WORKER_ALL_GATHER || collective == WORKER_REDUCE_SCATTER ||
                         collective == WORKER_ALL_TO_ALL;
  const uint64_t unit = sizeof(float) * (hasBlocks ? static_cast<uint64_t>(ranks) : 1);
  return std::max(unit, bytes / unit * unit);
}

std::vector<Case> casesOf(const Options& o) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = o.least; bytes < o.most; bytes *= o.factor) sizes.push_back(bytes);
  sizes.push_back(o.most);
  std::vector<Case> cases;
  for (const int ranks : o.ranks)
    for (const std::string& name : o.collectives) {
      const auto at = std::ranges::find(collectiveNames(), name) - collectiveNames().begin();
      const auto collective = static_cast<worker_collective>(at);
      for (const uint64_t bytes : sizes) {
        const bool isBarrier = collective == WORKER_BARRIER;
        const Case what{collective, ranks, isBarrier ? 0 : bytesOf(collective, ranks, bytes)};
        if (cases.empty() || !(cases.back() == what)) cases.push_back(what);
      }
    }
  return cases;
}

/// How much of the time a row gets: large ones have long calls, and ranks share cores.
double weightOf(const Case& what) {
  return 1 + static_cast<double>(what.bytes) * what.ranks / (64 << 20);
}

constexpr double kMeasuring = 0.7;  // of the time; the rest goes to starts, probes and limits

/// The value of the first line "KEY : value" of a file of the kernel.
std::string valueIn(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      const size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
      return at == line.npos ? "" : line.substr(at);
    }
  return "";
}

std::string machineText() {
  const std::string model = valueIn("/proc/cpuinfo", "model name");
  return tools::countText(static_cast<uint64_t>(base::usableCores()), "core") +
         (model.empty() ? "" : " of " + model);
}

/// A fifth is left to others.
uint64_t freeBytes() {
  uint64_t kibibytes = 0;
  std::istringstream(valueIn("/proc/meminfo", "MemAvailable")) >> kibibytes;
  return kibibytes * 1024 / 5 * 4;
}

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

/// Empty, or what an interrupted one has left in the file of the same settings.
Contest beginning(const Options& o) {
  const Settings settings{.version = TUTTI_VERSION,
                          .commit = o.commit,
                          .machine = machineText(),
                          .blocks = o.blocks,
                          .calls = o.calls,
                          .memory = o.memory,
                          .peers = o.only};
  const Contest empty{.settings = settings, .date = today(), .clockNs = clockNs()};
  if (o.json.empty() || tools::isStandardOutput(o.json) || !fs::is_regular_file(o.json))
    return empty;
  constexpr size_t kMostBytes = 256 << 20;
  Contest found = contestOf(o.json, base::readText("--json", o.json, kMostBytes));
  TUTTI_REQUIRE(found.settings == settings, "--json ", o.json,
                " has rows of another build, machine, or --blocks, --calls, --memory or --only: "
                "name another file, or remove it");
  found.absent.clear();  // they may be there by now
  return found;
}

void sayRow(size_t number, size_t count, const Row& row) {
  std::string text = base::message("[", number, "/", count, "] ", row.what.name(), ", ",
                                   row.what.ranks, " ranks, ", tools::bytesText(row.what.bytes));
  for (const Series& s : row.series)
    text +=
        base::message("; ", s.contender, " ", s.us.empty() ? "none" : tools::timeText(medianUs(s)));
  std::fprintf(stderr, "%s\n", text.c_str());
}

/// Measures what the contest has not, until the time is over. Returns how many rows it left out.
size_t measureAll(const Options& o, const std::vector<Contender>& who, Contest& contest) {
  const auto seconds = [begin = now_ns()] { return (now_ns() - begin) / 1e9; };
  std::error_code error;
  const fs::path memory = "/dev/shm";  // files there are memory, and never written back
  const fs::path root = fs::is_directory(memory, error) ? memory : fs::temp_directory_path();
  Jobs jobs(root, base::usableCores());
  Measurement measurement(who, o.memory, freeBytes(), jobs, contest);
  const std::vector<Case> cases = casesOf(o);
  double weights = 0;
  for (const Case& what : cases) weights += contest.find(what) ? 0 : weightOf(what);
  // No row gets less, also where others took longer: those at the end are left out instead.
  const double least = kMeasuring * o.minutes * 60 / std::max(1.0, weights);
  size_t number = 0, leftOut = 0;
  for (const Case& what : cases) {
    ++number;
    if (contest.find(what)) continue;
    const double left = o.minutes * 60 - seconds(), weight = weightOf(what);
    Budget budget{.blocks = o.blocks, .calls = o.calls};
    budget.seconds = weight * std::max(least, kMeasuring * left / weights);
    weights -= weight;
    try {
      if (left <= 0) throw std::runtime_error("its time is over");
      contest.rows.push_back(measurement.measure(what, budget));
      sayRow(number, cases.size(), contest.rows.back());
      if (!o.json.empty() && !tools::isStandardOutput(o.json))
        tools::writeFile("--json", o.json, json(contest).dump(1) + "\n");
    } catch (const std::runtime_error& e) {
      std::fprintf(stderr, "peers: %s, %d ranks, %s is left out: %s\n", what.name().c_str(),
                   what.ranks, tools::bytesText(what.bytes).c_str(), e.what());
      ++leftOut;
    }
  }
  return leftOut;
}

bool oursFailed(const Row& row) {
  return std::ranges::any_of(row.series,
                             [](const Series& s) { return isTutti(s) && !s.error.empty(); });
}

int run(const Options& o) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const auto& [flag, file] : {std::pair("--json", o.json), std::pair("--svg", o.svg)})
    if (!file.empty() && !tools::isStandardOutput(file)) tools::requireWritable(flag, file);
  std::vector<Contender> who = contenders(o.places);
  std::erase_if(who, [&](const Contender& c) {
    return c.name != "tutti" && std::ranges::find(o.only, c.name) == o.only.end();
  });
  Contest contest = beginning(o);
  const size_t leftOut = measureAll(o, who, contest);
  if (contest.rows.empty()) throw std::runtime_error("nothing was measured");
  const std::string none = withoutResult(contest), slower = slowerThanAPeer(contest);
  std::string text = tables(contest, who);
  if (leftOut > 0)
    text += base::message("\nLeft out: ", tools::countText(leftOut, "row"),
                          ". The same command with --json goes on with them.\n");
  if (!none.empty()) text += "\nNo result:\n" + none;
  text +=
      slower.empty() ? "\nNothing is slower than a peer.\n" : "\nSlower than a peer:\n" + slower;
  tools::printBeside(text, {o.json, o.svg});
  tools::writeIfNamed("--json", o.json, [&] { return json(contest).dump(1) + "\n"; });
  tools::writeIfNamed("--svg", o.svg, [&] { return picture(contest); });
  return std::ranges::any_of(contest.rows, oursFailed) ? 1 : 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  using namespace tutti::bench;
  return tutti::tools::runProgram<Options>(
      kProgram, [&] { return parse(argc, argv); }, [](const Options& o) { return run(o); });
}
