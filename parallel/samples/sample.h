#pragma once

// What the small samples share, so that each of them is little more than its training: flags,
// ranks, a text to learn, and the lines that they print. Those that train the same model on the
// same samples with the same seed print the same losses with --deterministic, on any number of
// ranks.

#include <functional>
#include <string>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/nn/gpt.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tutti::parallel {

struct SampleOptions {
  int ranks = 0;  ///< 0: not given
  std::string device = "host";
  GptOptions model = {.context = 32, .layers = 2, .width = 64, .heads = 4};
  int64_t steps = 40;
  int64_t batch = 16;  ///< sequences of one step, over all ranks
  bool deterministic = false;
};

/// One rank of a sample: what it trains with, and how it says what came of it.
class SampleRank {
 public:
  SampleRank(DeviceMesh& ofMesh, Kernels& withKernels, const SampleOptions& withOptions,
             bool quiet = false)
      : mesh(ofMesh), kernels(withKernels), options(withOptions), quiet_(quiet) {}

  DeviceMesh& mesh;
  Kernels& kernels;
  const SampleOptions& options;

  /// Rank 0 prints the loss of a step, from 0, with so many digits; nothing in a dry run, which has
  /// none.
  void show(int64_t step, const StepReport& report, int digits = 9);
  /// Rank 0 prints what it holds, and what it sent in the last step that was shown.
  void showUse(const Engine& engine) const;
  /// Rank 0 prints it.
  void say(const std::string& text) const;
  /// Rank 0 makes a file of it, which `flag` names. A run before there are ranks only throws what
  /// that would.
  void write(const char* flag, const std::string& path, const std::string& text) const;
  /// Rank 0 says it on standard error.
  void note(const std::string& text) const;

 private:
  bool speaks() const { return !quiet_ && mesh.rank() == 0; }
  const bool quiet_;
  Collectives before_, step_;
};

/// redistribute(), of what a sample itself exchanges.
Tensor rearranged(DeviceMesh& mesh, const Tensor& x, const Shape& global, const Layout& to,
                  Arena& memory);

/// Bytes to learn, the same every time.
std::vector<uint8_t> sampleText();
/// Of first weights and of the order of samples.
inline constexpr uint64_t kSampleSeed = 1;

/// Those of a training of the model: --steps, --batch, the model's sizes and --deterministic, with
/// what `options` has for defaults.
void addTrainingFlags(CLI::App& app, SampleOptions& options);

struct Sample {
  std::string name, about;
  /// All but --ranks and --device.
  std::function<void(CLI::App&, SampleOptions&)> flags = addTrainingFlags;
  /// How so many ranks lie. Throws InvalidArgument naming the flag that is against it.
  std::function<MeshShape(int ranks)> mesh;
  std::function<void(SampleRank&)> train;
  /// Where ranks are threads: runs `ranks` of them. Otherwise each is a process.
  std::function<void(const SampleOptions&, int ranks)> trainOnThreads = {};
  int gpuBlocks = 0;  ///< CommunicatorOptions', of ranks that are processes
};

/// Runs a sample over its ranks; returns the program's exit code. What is wrong with its flags, or
/// with what they ask for, is printed once: a dry run comes before there are ranks.
int runSample(int argc, char** argv, const Sample& sample);

}  // namespace tutti::parallel
