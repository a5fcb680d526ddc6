#pragma once

// What train_gpt shows: on a terminal one line that is rewritten, elsewhere a line now and then;
// and one JSON line a step in a file when asked for. Only rank 0 writes. What cannot be written, to
// a full disk for one, throws Error(System): a training that nobody can see is not worth its time.

#include <chrono>
#include <optional>
#include <string>

#include "parallel/checkpoint/file.h"
#include "parallel/engine/engine.h"
#include "parallel/samples/train_gpt/train_options.h"

namespace tutti::parallel {

/// How fast a training goes.
struct Pace {
  double stepsPerSecond;
  double secondsLeft;
};
/// Of a training of `steps`, of which those behind `first` up to `step` took so many seconds: those
/// up to `first` were another run's.
Pace paceOf(int64_t first, int64_t step, int64_t steps, double seconds);

class TrainingProgress {
 public:
  /// Throws System naming the JSON file when it cannot be written, and InvalidArgument when
  /// --resume is to go on with one that has something else. Without --resume the file that is there
  /// stays until there is a first step.
  TrainingProgress(const TrainOptions& options, bool enabled);

  void begin(int64_t parameters, int64_t tokens, int ranks);
  /// The training goes on behind `step`, and says so where there is one: lines of later ones, which
  /// an attempt before this one has written, go from the JSON file, and the last if it is not
  /// whole. Time counts from here.
  void resumed(int64_t step);
  /// Says so when a step takes some of the text's `windows` more than once.
  void shortText(int64_t windows);
  /// `memory` is this rank's.
  void step(int64_t step, const StepReport& report, double learningRate,
            const TrainingMemory& memory);
  /// Says on standard error that the training has ended without a result.
  void notFinite(const std::string& what);
  /// Says that the training ends after `step` because of `signal`, and where it goes on from;
  /// `checkpoints` is empty when nothing was saved.
  void stopped(int64_t step, int signal, const std::string& checkpoints);
  /// Of the validation's windows so many are done. Says so where it takes more than some seconds.
  void validating(int64_t done, int64_t windows);
  void validation(double loss);
  void text(const std::string& prompt, const std::string& generated);

 private:
  using Clock = std::chrono::steady_clock;
  void writeJson(int64_t step, const StepReport& report, double learningRate, double stepSeconds,
                 const TrainingMemory& memory);
  bool writesJson() const { return enabled_ && !jsonPath_.empty(); }
  /// The first line of a run takes the place of the file that is there.
  void appendJson(const std::string& line);
  void syncJson();
  void cutJson(int64_t step);
  void show(int64_t step, const StepReport& report);
  double seconds(Clock::time_point since) const;

  bool enabled_;
  bool terminal_;
  int64_t steps_, batch_, tokensPerStep_;
  int64_t first_ = 0;              ///< behind which it goes on
  const std::string checkpoints_;  ///< from where
  const std::string unit_;         ///< "byte" or "token"
  std::string jsonPath_;
  const bool onHost_;
  double peakFlops_;          ///< of a rank, a second; 0 until it is measured, which a GPU's is not
  double flopsPerToken_ = 0;  ///< of forward and backward
  double attentionFlops_ = 0;  ///< of these, without parameters
  double idleParameters_ = 0;  ///< of a mixture: those of experts that a token does not go to
  int ranks_ = 1;
  std::optional<File> json_;  ///< once it has a line of this run, or goes on
  Clock::time_point start_, lastStep_, lastShown_;
  Clock::time_point validationStart_;
  bool validationShown_ = false;
};

/// Writes out what is buffered for standard output. Throws System when it, or anything before it,
/// could not be written.
void flushOutput();

}  // namespace tutti::parallel
