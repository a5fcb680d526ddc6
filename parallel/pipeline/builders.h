#pragma once

// The schedules of the literature. Their costs and what they hold, on p ranks with m micro-batches
// and v chunks (docs/explanation/pipelines.md draws them):
//
//   schedule          share of a step that ranks idle                       activations of a rank
//   naive             (p-1)/p                                               1
//   GPipe             (p-1)/(m+p-1)                                         m
//   1F1B              (p-1)/(m+p-1)                                         min(m, p)
//   interleaved 1F1B  (p-1)/(v m+p-1)                                       (p+(p-1)/v), of 1/v
//   each ZB-H1             (p-1)(F+B-W) / (m(F+B+W) + (p-1)(F+B-W))              min(m, p) ZB-V
//   none between a rank's first and last action           min(2 m, 2 p), of half
//                     where F = B = W and m >= 2 p - 1
//
// With m >= p. Fewer micro-batches than ranks are possible everywhere, and numbers that are no
// multiple of them; the interleaved schedule then holds up to (p-1) (v-1) activations more.

#include <optional>
#include <string>

#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"

namespace tutti::parallel {

enum class ScheduleKind : uint8_t {
  Naive,         ///< model parallelism by layers: one micro-batch at a time
  GPipe,         ///< Huang et al., "GPipe: Efficient Training of Giant Neural Networks ..."
  OneFOneB,      ///< Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training"
  Interleaved,   ///< Narayanan et al., "Efficient Large-Scale Language Model Training on GPU ..."
  ZeroBubbleH1,  ///< Qi et al., "Zero Bubble Pipeline Parallelism"
  ZeroBubbleV    ///< there; and Qi et al., "Pipeline Parallelism with Controllable Memory"
};
/// "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"; nothing for another word.
std::optional<ScheduleKind> parseScheduleKind(const std::string& name);
const char* toString(ScheduleKind kind);
std::vector<std::string> scheduleWords();  ///< all of them
std::string scheduleNames();               ///< as text: "naive, gpipe, ..."

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int ranks = 1, microBatches = 1;
  int chunks = 0;  ///< of a rank; 0: as few as the kind has
  /// Of ZB-V: activations of chunks that a rank may hold, 2 ... 2 ranks; 0: 2 ranks. With fewer
  /// it holds less and idles more.
  int mostActivations = 0;
  Costs costs = {};  ///< that ZB-V suits its order to
};

/// The schedule, transfers and all. Throws InvalidArgument naming the option that makes no sense:
/// the interleaved schedule has two chunks or more, ZB-V has two, the others have one.
Schedule buildSchedule(const ScheduleOptions& options);

}  // namespace tutti::parallel
