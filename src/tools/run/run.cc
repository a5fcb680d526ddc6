#include "src/tools/run/run.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::tools {
namespace {

constexpr const char* kUsage =
    R"(usage: tutti run -n N [options] [--] PROGRAM [ARGUMENTS...]

Starts N ranks of PROGRAM on this host. Each gets TUTTI_RANK, TUTTI_LOCAL_RANK, TUTTI_WORLD_SIZE,
TUTTI_UNIQUE_ID and TUTTI_RESTART; the first that fails ends the others, and its exit code is that of
tutti run.

  -n, --ranks N     how many ranks: 1 to 4096
      --prefix      begin each line of output with its rank (the default)
      --no-prefix   let the ranks write to this terminal or file themselves
  -o, --output DIR  write each rank's output to DIR/RANK.out and DIR/RANK.err
      --restarts K  start a job that failed again, at most K times (default 0); TUTTI_RESTART
                    says how many times it was started before, and output files of later attempts
                    are in DIR/restart-1, DIR/restart-2, ...
      --grace S     seconds between asking the other ranks to end and killing them (default 10)
      --output-timeout S
                    seconds that output waits for a reader who takes nothing, after the ranks have
                    ended (default 600)
  -h, --help        this text

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all ranks; after the first three a job
is not started again, and the second of them kills its ranks.
)";

/// The options of one command line, taken from the front.
class RunArguments {
 public:
  explicit RunArguments(const std::vector<std::string>& words) : words_(words) {}

  /// True, and past it, when the next word is one of the names.
  bool flag(const std::string& name, const std::string& alias = {}) {
    if (done() || (word() != name && word() != alias)) return false;
    ++next_;
    return true;
  }
  /// The value of "--name V", "--name=V" or "-a V", when the next word is that option.
  std::optional<std::string> value(const std::string& name, const std::string& alias = {}) {
    if (done()) return std::nullopt;
    const std::string given = word();
    if (given == name || (!alias.empty() && given == alias)) {
      ++next_;
      TUTTI_REQUIRE(!done(), given, " needs a value");
      return words_[next_++];
    }
    if (given.starts_with(name + "=")) return ++next_, given.substr(name.size() + 1);
    return std::nullopt;
  }
  /// The digits of "-n4". No other option is glued to its value: "-output x" is not "-o utput".
  std::optional<std::string> gluedNumber(const std::string& alias) {
    if (done() || !word().starts_with(alias)) return std::nullopt;
    const std::string digits = word().substr(alias.size());
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    return ++next_, digits;
  }
  bool done() const { return next_ == words_.size(); }
  const std::string& word() const { return words_[next_]; }
  std::vector<std::string> rest() const { return {words_.begin() + next_, words_.end()}; }

 private:
  const std::vector<std::string>& words_;
  size_t next_ = 0;
};

/// The number in `text`, a value of `option`, which says how many `things`.
int parseCount(const char* option, const char* things, const std::string& text, int low, int high) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  TUTTI_REQUIRE(
      error == std::errc() && end == text.data() + text.size() && count >= low && count <= high,
      option, " ", text, ": the number of ", things, " is a whole number from ", low, " to ", high);
  return count;
}

int parseRanks(const std::string& text) { return parseCount("-n", "ranks", text, 1, 4096); }

/// The duration in `text`, a value of `option`, which says how long `what` is.
std::chrono::milliseconds parseSeconds(const char* option, const char* what,
                                       const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  TUTTI_REQUIRE(
      error == std::errc() && end == text.data() + text.size() && seconds >= 0 && seconds <= 1e6,
      option, " ", text, ": ", what, " is a number of seconds from 0 to 1000000");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace

std::variant<LaunchOptions, HelpWanted> parseRun(const std::vector<std::string>& words) {
  LaunchOptions options;
  options.ranks = 0;
  RunArguments arguments(words);
  while (!arguments.done() && arguments.word().starts_with("-")) {
    if (arguments.flag("--")) break;
    if (arguments.flag("--help", "-h")) return HelpWanted{};
    if (arguments.flag("--prefix")) {
      options.prefixOutput = true;
    } else if (arguments.flag("--no-prefix")) {
      options.prefixOutput = false;
    } else if (const auto ranks = arguments.value("--ranks", "-n")) {
      options.ranks = parseRanks(*ranks);
    } else if (const auto glued = arguments.gluedNumber("-n")) {
      options.ranks = parseRanks(*glued);
    } else if (const auto folder = arguments.value("--output", "-o")) {
      TUTTI_REQUIRE(!folder->empty(), "--output needs the name of a folder");
      options.outputDirectory = *folder;
    } else if (const auto restarts = arguments.value("--restarts")) {
      options.restarts = parseCount("--restarts", "restarts", *restarts, 0, 1000);
    } else if (const auto grace = arguments.value("--grace")) {
      options.gracePeriod = parseSeconds("--grace", "the grace period", *grace);
    } else if (const auto timeout = arguments.value("--output-timeout")) {
      options.outputTimeout = parseSeconds("--output-timeout", "the timeout of output", *timeout);
    } else {
      base::fail(ErrorCode::InvalidArgument, "unknown option ", arguments.word());
    }
  }
  TUTTI_REQUIRE(options.ranks > 0, "how many ranks? -n N says it");
  options.command = arguments.rest();
  TUTTI_REQUIRE(!options.command.empty() && !options.command[0].empty(), "no program to run");
  return options;
}

int runMain(int argc, char** argv) {
  LaunchOptions options;
  try {
    const auto parsed = parseRun({argv + 1, argv + argc});
    if (std::holds_alternative<HelpWanted>(parsed)) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    options = std::get<LaunchOptions>(parsed);
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti run: %s\n(tutti run --help shows the options)\n",
                 base::printableLines(error.what()).c_str());
    return 2;
  }
  try {
    return launch(options);
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti run: %s\n", base::printableLines(error.what()).c_str());
    return error.code() == ErrorCode::InvalidArgument ? 2 : 1;
  }
}

}  // namespace tutti::tools
