// Training steps of a GPT-2-style model against PyTorch: the same shape, batch, precision (float32,
// or with --bf16 bfloat16 with float32 masters) and number of threads (one for each rank). Both are
// started first and take turns, block by block; a block is the median of its steps, each of the
// slowest rank. Printed: milliseconds of a step, tokens a second, and the median of the paired
// ratios with its 95% interval: above 1 we are faster. Figures are comparable for one version of
// PyTorch only, so another one is refused.
//
//   training_speed --python VENV/bin/python [--model small|124m] [--ranks 2] [--compile]
//
// Without PyTorch, where the time of a step of ours goes, kernel by kernel:
//
//   training_speed --profile [--model small|124m] [--steps 20]

#include <signal.h>
#include <tutti/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "job.h"

namespace {

using tutti::bench::freePort;
using tutti::bench::Interval;
using tutti::bench::Job;
using tutti::bench::medianInterval;
using tutti::bench::Process;

struct Model {
  int vocabulary, context, layers, width, heads, batch;
};
const std::map<std::string, Model> kModels{
    {"small", {256, 128, 4, 128, 4, 16}},     // 0.84 million parameters
    {"124m", {50257, 1024, 12, 768, 12, 4}},  // GPT-2's
};

/// The version that docs/benchmarks/training.md compares with.
constexpr const char* kTorchVersion = "2.15.0";

/// What `python` says of its torch, "2.15.0+cpu"; empty when it has none.
std::string torchVersion(const std::string& python) {
  if (python.find('\'') != std::string::npos) throw std::runtime_error("--python: " + python);
  const std::string command = "'" + python + "' -c 'import torch; print(torch.__version__)'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(command.c_str(), "r"),
                                                               ::pclose);
  char line[128] = "";
  if (!output || std::fgets(line, sizeof line, output.get()) == nullptr) return "";
  std::string version = line;
  while (!version.empty() && version.back() == '\n') version.pop_back();
  return version;
}

/// Returns it. Throws std::runtime_error unless it is kTorchVersion, of whatever build, or `any`.
std::string checkedTorchVersion(const std::string& python, bool any) {
  const std::string version = torchVersion(python);
  if (version.empty()) throw std::runtime_error("--python " + python + " has no torch");
  const std::string release = version.substr(0, version.find('+'));
  if (!any && release != kTorchVersion)
    throw std::runtime_error("PyTorch " + version + ", and what is published is about " +
                             kTorchVersion + ": install that, or give --any-torch");
  return version;
}

std::vector<std::string> flagsOf(const Model& m, int ranks) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, int value) {
    flags.insert(flags.end(), {flag, std::to_string(value)});
  };
  add("--vocabulary", m.vocabulary);
  add("--context", m.context);
  add("--layers", m.layers);
  add("--width", m.width);
  add("--heads", m.heads);
  add("--batch", m.batch);
  add("--ranks", ranks);
  return flags;
}

std::unique_ptr<Job> start(const std::string& name, std::vector<std::string> command, int ranks) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("tutti-training-speed-" + std::to_string(::getpid())) / name;
  const std::string address = "127.0.0.1:" + std::to_string(freePort());
  std::vector<Process> processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.push_back({command, [rank, ranks, root, address] {
                           ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
                           ::setenv("TUTTI_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
                           ::setenv("TUTTI_LOCAL_RANK", std::to_string(rank).c_str(), 1);
                           ::setenv("TUTTI_ADDRESS", address.c_str(), 1);
                           ::setenv("TUTTI_JOB_KEY", root.c_str(), 1);
                           ::setenv("TUTTI_JOB_ID", root.c_str(), 1);
                         }});
  return std::make_unique<Job>(name, processes, ranks, root);
}

/// Becomes the program of a command.
[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  throw std::runtime_error(command[0] + ": " + std::strerror(errno));
}

struct Options {
  std::string modelName = "small", python;
  int ranks = 1, blocks = 9, steps = 5, microBatches = 0, batch = 0;
  bool compile = false, anyTorch = false, profile = false, brain = false, whole = false;
  double required = 0;
};

void addFlags(CLI::App& app, Options& o) {
  app.add_option("--python", o.python, "an interpreter that has torch");
  app.add_flag("--profile", o.profile, "without PyTorch: the time of a step of ours, by kernel")
      ->excludes("--python");
  app.add_option("--model", o.modelName, "small (0.84 million parameters) or 124m")
      ->check(CLI::IsMember({"small", "124m"}));
  app.add_option("--ranks", o.ranks, "data-parallel")->check(CLI::Range(1, 16));
  app.add_option("--batch", o.batch, "sequences of a step; 0: 16, or 4 of 124m")
      ->check(CLI::Range(0, 1024));
  app.add_option("--micro-batches", o.microBatches, "ours, of a step; 0: chosen")
      ->check(CLI::Range(0, 1024));
  app.add_option("--blocks", o.blocks, "turns of each library")->check(CLI::Range(6, 1000));
  app.add_option("--steps", o.steps, "of a turn")->check(CLI::Range(1, 1000));
  app.add_flag("--compile", o.compile, "PyTorch's model through torch.compile");
  app.add_flag("--bf16", o.brain,
               "both compute in bfloat16, PyTorch by autocast; masters are float32");
  app.add_flag("--no-amx", o.whole, "ours leave AMX out: products of float32 are not split");
  app.add_flag("--any-torch", o.anyTorch,
               std::string("also another PyTorch than ") + kTorchVersion);
  app.add_option("--require", o.required, "end with 1 unless the ratio is at least this");
}

Model modelOf(const Options& o) {
  Model model = kModels.at(o.modelName);
  if (o.batch > 0) model.batch = o.batch;
  return model;
}

/// Of a worker, with the flags that ours and PyTorch's share.
std::vector<std::string> workerOf(std::vector<std::string> command, const Options& o) {
  for (const std::string& flag : flagsOf(modelOf(o), o.ranks)) command.push_back(flag);
  if (o.brain) command.push_back("--bf16");
  return command;
}

void print(const Options& o, const std::vector<double> (&times)[2], const Interval& ratio) {
  const Model model = modelOf(o);
  const double tokens = static_cast<double>(model.batch) * model.context;
  std::printf("# %s: %d layers, %d wide, %d heads, vocabulary %d; batch %d x %d; %d rank%s\n",
              o.modelName.c_str(), model.layers, model.width, model.heads, model.vocabulary,
              model.batch, model.context, o.ranks, o.ranks == 1 ? "" : "s");
  std::printf("# %s, %s; %d blocks of %d steps\n", o.brain ? "bfloat16" : "float32",
              o.compile ? "torch.compile" : "eager", o.blocks, o.steps);
  for (const int i : {0, 1}) {
    const double median = medianInterval(times[i]).median;
    std::printf("%-6s %10.2f ms %10.0f tokens/s\n", i == 0 ? "tutti" : "torch", median / 1e6,
                tokens / median * 1e9);
  }
  std::printf("ratio  %10.3f [%.3f, %.3f]\n", ratio.median, ratio.low, ratio.high);
}

/// In turns. Returns the exit code.
int compare(const Options& o, const std::vector<std::string>& ours) {
  std::printf("# PyTorch %s\n", checkedTorchVersion(o.python, o.anyTorch).c_str());
  std::fflush(stdout);
  std::vector<std::string> theirs = workerOf({o.python, TORCH_TRAINER}, o);
  if (o.compile) theirs.push_back("--compile");
  const auto tutti = start("tutti", ours, o.ranks);
  const auto torch = start("torch", theirs, o.ranks);
  std::vector<double> times[2], ratios;
  for (int block = 0; block < o.blocks; ++block) {
    const worker_command command{0, static_cast<uint32_t>(o.steps), block == 0 ? 2U : 0U};
    times[0].push_back(tutti->run(command));
    times[1].push_back(torch->run(command));
    ratios.push_back(times[1].back() / times[0].back());
  }
  const Interval ratio = medianInterval(ratios);
  print(o, times, ratio);
  return ratio.median >= o.required ? 0 : 1;
}

int run(const Options& o) {
  if (o.profile && o.ranks > 1)
    throw std::runtime_error("--profile is of one rank: leave --ranks out");
  if (!o.profile && o.python.empty())
    throw std::runtime_error("--python names an interpreter that has torch; --profile needs none");
  const std::string bin = std::filesystem::canonical("/proc/self/exe").parent_path();
  std::vector<std::string> ours =
      workerOf({bin + "/tutti_trainer", "--micro-batches", std::to_string(o.microBatches)}, o);
  if (o.whole) ours.emplace_back("--no-amx");
  if (!o.profile) return compare(o, ours);
  ours.insert(ours.end(), {"--profile", std::to_string(o.steps)});
  become(ours);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"training steps, against PyTorch", "training_speed"};
  app.set_version_flag("--version", "training_speed (Tutti) " TUTTI_VERSION);
  addFlags(app, options);
  CLI11_PARSE(app, argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "training_speed: %s\n", e.what());
    return 1;
  }
}
