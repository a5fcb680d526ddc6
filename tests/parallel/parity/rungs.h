#pragma once

// The rungs that compare whole trainings: each runs one and compares it with what it is given.

#include <map>

#include "tests/parallel/parity/finding.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {

/// A model of runs.h, and what cuts a layer's heads over four ranks.
struct RunModel {
  std::string name, heads;
  ModelOptions options;
};
std::vector<RunModel> runModels();

/// Rung 1 over several steps, with clipping: gradients, weights, norms, losses within 1e-12.
Finding float64Steps(const RunResult& one, const std::string& layout, const RunOptions& options);

/// Rung 2. What one rank computes in float32 and how far that is from float64.
struct Float32Reference {
  Values first, right;  ///< the first weights; gradients in float64
  RunResult one;
  double error = 0, clipped = 0;  ///< of one rank's gradient; its norm after clipping
};
/// Of one step of SGD under `options`, which are one rank's.
Float32Reference float32Reference(const RunOptions& options);
/// The gradient is no further from float64's than twice one rank's is; norms within 1e-6.
Finding float32Step(const Float32Reference& reference, const std::string& layout,
                    const RunOptions& options);

/// Of types of 16 bits, with gradients added in float32: the gradient alone. `reference` is theirs.
Finding narrowStep(const Float32Reference& reference, const std::string& layout,
                   const RunOptions& options);

/// Rung 3: losses, norms, weights, gradients and the validation loss are the same to the bit.
Finding sameBits(const RunResult& one, const std::string& layout, const RunOptions& options);

/// Rung 4: losses, not relative, within 1e-5.
Finding sameLosses(const RunResult& one, const std::string& layout, const RunOptions& options);

/// Rung 4, the longer run: the mean losses of windows of steps, and the validation loss, between
/// the least and the most that three seeds give with one rank.
struct Band {
  std::vector<double> least, most;
};
/// Of `options` with each of the seeds.
Band bandOf(const RunOptions& options, const std::vector<uint64_t>& seeds);
/// The difference is from the middle of the band, its half the bound.
Finding withinBand(const Band& band, const std::string& layout, const RunOptions& options);

/// Every tensor of the newest checkpoint below `root`, whole.
std::map<std::string, std::vector<char>> savedTensors(const std::string& root);
/// Rung 5: weights and moments of that checkpoint are the same to the bit when `options` have
/// loaded and saved them.
Finding loadedAndSaved(const std::string& root, const std::string& layouts, RunOptions options);

/// Rung 6: one bit of what rank 1 has of `parameter` is another one: of its own rows, or of the
/// whole weight that it has gathered from all ranks. All ranks are told, and by name.
enum class Copy { Master, Gathered };
Finding corruptedReplica(const Arrangement& layout, const ModelOptions& model,
                         const std::string& parameter, Copy copy);

}  // namespace tutti::parallel
