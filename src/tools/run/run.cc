#include "src/tools/run/run.h"

#include <chrono>
#include <cmath>

#include "src/tools/common/command_line.h"
#include "src/tools/common/program_words.h"

namespace tutti::tools {
namespace {

constexpr const char* kFooter =
    "SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all ranks; after the first "
    "three a job\nis not started again, and the second of them kills its ranks.";

/// CLI11's own check lets NaN pass.
CLI::Validator secondsRange() {
  const auto objection = [](const std::string& text) {
    double seconds = 0;
    const bool isNumber = CLI::detail::lexical_cast(text, seconds);
    if (isNumber && seconds >= 0 && seconds <= 1e6) return std::string();
    return text + " is no number of seconds from 0 to 1000000";
  };
  return CLI::Validator(objection, "SECONDS");
}

std::chrono::milliseconds millisecondsOf(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

/// Of what is given twice the last counts.
template <class Value>
CLI::Option* addLastOf(CLI::App& app, const char* names, Value& value, const char* about) {
  return app.add_option(names, value, about)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

struct RunSeconds {
  double grace, outputTimeout;
};

void declareRun(CLI::App& app, LaunchOptions& o, RunSeconds& seconds) {
  addLastOf(app, "-n,--ranks", o.ranks, "how many ranks")->required()->check(CLI::Range(1, 4096));
  const auto addPrefix = [&](const char* name, bool value, const char* about) {
    app.add_flag_callback(
           name, [&o, value] { o.prefixOutput = value; }, about)
        ->trigger_on_parse();
  };
  addPrefix("--prefix", true, "begin each line of output with its rank (the default)");
  addPrefix("--no-prefix", false, "let the ranks write to this terminal or file themselves");
  addLastOf(app, "-o,--output", o.outputDirectory,
            "write each rank's output to DIR/RANK.out and DIR/RANK.err")
      ->type_name("DIR")
      ->check([](const std::string& folder) {
        return folder.empty() ? "it needs the name of a folder" : std::string();
      });
  addLastOf(app, "--restarts", o.restarts,
            "start a job that failed again, at most so many times; TUTTI_RESTART says how many "
            "times it was started before, and output files of later attempts are in DIR/restart-1, "
            "DIR/restart-2, ...")
      ->check(CLI::Range(0, 1000));
  app.add_flag(
         "--keep-going", o.keepGoing,
         "let the other ranks go on when one fails, as those do that shrink their communicator; "
         "the exit code stays that of the first that failed")
      ->excludes(app.get_option("--restarts"));
  addLastOf(app, "--grace", seconds.grace,
            "seconds between asking the other ranks to end and killing them")
      ->check(secondsRange());
  addLastOf(app, "--output-timeout", seconds.outputTimeout,
            "seconds that output waits for a reader who takes nothing, after the ranks have ended")
      ->check(secondsRange());
  app.footer(kFooter);
}

}  // namespace

std::variant<LaunchOptions, int> parseRun(int argc, const char* const* argv) {
  LaunchOptions options;
  const auto inSeconds = [](std::chrono::duration<double> time) { return time.count(); };
  RunSeconds seconds{inSeconds(options.gracePeriod), inSeconds(options.outputTimeout)};
  CommandLine app(
      "Starts N ranks of PROGRAM on this host. Each gets TUTTI_RANK, TUTTI_LOCAL_RANK, "
      "TUTTI_WORLD_SIZE,\nTUTTI_UNIQUE_ID and TUTTI_RESTART; the first that fails ends the others, "
      "and its exit code is that of\ntutti run.",
      "tutti run");
  declareRun(app, options, seconds);
  if (const auto code = readBeforeProgram(app, argc, argv, options.command)) return *code;
  options.gracePeriod = millisecondsOf(seconds.grace);
  options.outputTimeout = millisecondsOf(seconds.outputTimeout);
  return options;
}

int runMain(int argc, char** argv) {
  return runProgram<LaunchOptions>(
      "tutti run", [&] { return parseRun(argc, argv); },
      [](const LaunchOptions& options) { return launch(options); });
}

}  // namespace tutti::tools
