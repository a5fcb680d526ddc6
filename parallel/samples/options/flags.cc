#include "parallel/samples/options/flags.h"

#include <tutti/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "parallel/samples/reports/progress.h"
#include "src/base/nearest_name.h"
#include "src/base/one_of.h"
#include "src/base/printable.h"

namespace tutti::parallel {

namespace {
constexpr int kMost = 1'000'000'000;

/// What is wrong with a command line. CLI11 itself names words that it has no place for, and no
/// more.
std::string objectionOf(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || left.empty()) return error.what();
  const std::string flag = left[0].substr(0, left[0].find('='));
  if (!flag.starts_with("-")) return "there is no place for the word " + flag;
  return "there is no flag " + flag + nearestFlag(app, flag);
}
}  // namespace

CLI::Validator positiveSize() { return CLI::Range(1, kMost, "POSITIVE"); }
CLI::Validator notNegativeSize() { return CLI::Range(0, kMost, "NONNEGATIVE"); }

CLI::Validator byteSize() {
  const auto convert = [size = CLI::AsSizeValue(false)](std::string& text) {
    std::string number = text;
    try {
      // CLI11 would take -1 for 2^64 - 1.
      if (text.find('-') == std::string::npos && size(number).empty()) {
        text = number;
        return std::string();
      }
    } catch (const CLI::ValidationError&) {  // an unknown unit, in words that are not about it
    }
    return text + " is no number of bytes, like 16M";
  };
  return CLI::Validator(convert, "BYTES");
}

/// CLI11's own checks let NaN pass and print their bounds with 309 digits.
CLI::Validator finiteNumber(bool orZero) {
  const auto objection = [orZero](std::string& text) {
    double value = 0;
    const bool read = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    if (read && (value > 0 || (orZero && value == 0))) return std::string();
    return text + " is not a finite number " + (orZero ? "of at least 0" : "above 0");
  };
  return CLI::Validator(objection, orZero ? "NONNEGATIVE" : "POSITIVE");
}

std::string nearestFlag(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  const std::string word = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  return base::didYouMean(word, names, "--");
}

void addExpertFlags(CLI::App& app, ExpertOptions& o) {
  const CLI::Validator positive = positiveSize();
  CLI::Option* const experts =
      app.add_option("--experts", o.count,
                     "experts in the place of a block's MLP; --ep divides them; 0: none")
          ->check(notNegativeSize())
          ->capture_default_str();
  const auto add = [&, needed = o.count == 0](const char* flag, auto& value,
                                              const CLI::Validator& valid, const char* about) {
    CLI::Option* const option =
        app.add_option(flag, value, about)->check(valid)->capture_default_str();
    if (needed) option->needs(experts);
  };
  add("--experts-per-token", o.perToken, positive, "of them those that a token goes to");
  add("--experts-every", o.every, positive, "each n-th block has experts");
  add("--capacity", o.capacityFactor, finiteNumber(true),
      "most tokens of a sequence for an expert, over an even share; more are dropped; 0: none is");
  add("--aux-loss", o.auxLoss, finiteNumber(true),
      "how much the experts' load-balancing loss counts");
  add("--z-loss", o.zLoss, finiteNumber(true), "how much the router's z loss counts");
}

void fillExperts(ExpertOptions& o) {
  // The weight of a single expert would be 1, whatever the router says.
  o.normalized = o.perToken > 1;
}

void sayError(const std::string& program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), base::printableLines(what).c_str());
}

int exitCodeOf(const CLI::App& app, const CLI::ParseError& error) {
  const std::string name = app.get_name();
  if (error.get_exit_code() != 0) {
    sayError(name, objectionOf(app, error) + "\n(" + name + " --help shows the flags)");
    return 2;
  }
  app.exit(error);  // what was asked for, on standard output
  try {
    flushOutput();
    return 0;
  } catch (const Error& lost) {
    sayError(name, lost.what());
    return 1;
  }
}

void addVersionFlag(CLI::App& app) {
  app.set_version_flag("--version", app.get_name() + " (Tutti) " + TUTTI_VERSION,
                       "Print the version and exit");
}

void addRanksFlag(CLI::App& app, int& ranks) {
  app.add_option("--ranks", ranks, "processes to start on this machine")
      ->check(CLI::Range(1, 1024));
}

void addStepFlags(CLI::App& app, int64_t& steps, int64_t& batch) {
  app.add_option("--steps", steps, "optimizer steps")->check(positiveSize())->capture_default_str();
  app.add_option("--batch", batch, "sequences of one step, over all ranks")
      ->check(positiveSize())
      ->capture_default_str();
}

void addModelFlags(CLI::App& app, GptOptions& model) {
  const auto add = [&](const char* flag, int64_t& value, const char* about) {
    app.add_option(flag, value, about)->check(positiveSize())->capture_default_str();
  };
  add("--context", model.context, "tokens that the model sees at once");
  add("--layers,--n-layers", model.layers, "transformer blocks");
  add("--width", model.width, "width of the residual stream");
  add("--heads", model.heads, "attention heads; they divide the width");
}

void addReshardFlags(CLI::App& app, ReshardFlags& flags) {
  app.add_option("--reshard", flags.when,
                 "when gathered weights are freed: after-forward (the default: after each forward "
                 "and each backward), after-backward, or never (no reshard)")
      ->check(base::oneOf({"after-forward", "after-backward", "never"}));
  app.add_option("--backwards", flags.backwards,
                 "with --reshard after-backward: after so many of them; default 1")
      ->check(CLI::Range(1, kMost, "POSITIVE"));
}

Reshard reshardOf(const ReshardFlags& flags) {
  require(flags.backwards == 0 || flags.when == "after-backward", "--backwards ", flags.backwards,
          " is about --reshard after-backward");
  Reshard reshard;
  if (flags.when == "never") reshard.when = Reshard::Never;
  if (flags.when == "after-backward") reshard.when = Reshard::AfterBackward;
  if (flags.backwards > 0) reshard.backwards = flags.backwards;
  return reshard;
}

}  // namespace tutti::parallel
