#include "src/tools/plan_training/train_command.h"

#include "src/base/check.h"

namespace tutti::tools {
namespace {

using base::message;
using parallel::Axis;
using parallel::TrainingLayout;

/// As a shell takes it for one word.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:@,%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string modelFlags(const PlanTrainingOptions& o) {
  const parallel::TrainingJob& job = o.job;
  std::string text = message(" --model ", quoted(o.model), " --context ", job.context, " --batch ",
                             job.batch, " --type ", toString(job.types.weights));
  if (job.types.gradients != DataType::Float32)
    text += message(" --gradients ", toString(job.types.gradients));
  if (job.optimizer != parallel::OptimizerKind::AdamW)
    text += message(" --optimizer ", parallel::toString(job.optimizer));
  return text;
}

/// Ranks along the axes: those of tensor parallelism are one flag's.
std::string axisFlags(const parallel::MeshShape& mesh) {
  std::string text;
  for (const Axis axis : {Axis::Data, Axis::Fsdp, Axis::Pipeline, Axis::Context, Axis::Expert})
    if (mesh[axis] > 1) text += message(" --", parallel::toString(axis), " ", mesh[axis]);
  const int tensor = mesh.ranks(parallel::kTensorAxes);
  return tensor > 1 ? message(text, " --tp ", tensor) : text;
}

std::string pipelineFlags(const TrainingLayout& layout) {
  if (layout.mesh[Axis::Pipeline] == 1) return "";
  const std::string text = message(" --schedule ", parallel::toString(layout.schedule));
  return layout.chunks > 0 ? message(text, " --chunks ", layout.chunks) : text;
}

/// train_gpt counts the micro-batches of a round, over all ranks that have other sequences.
std::string microBatchFlags(const TrainingLayout& layout) {
  const int ranks = layout.mesh.ranks({Axis::Data, Axis::Fsdp, Axis::Expert});
  const std::string text =
      message(" --micro-batches ", layout.microBatches / layout.rounds * ranks);
  return layout.rounds > 1 ? message(text, " --rounds ", layout.rounds) : text;
}

}  // namespace

std::string trainCommand(const PlanTrainingOptions& o, const TrainingLayout& layout) {
  using parallel::ContextAttention;
  using parallel::Recompute;
  using parallel::Reshard;
  std::string text = "train_gpt --device cuda" + modelFlags(o) + axisFlags(layout.mesh);
  if (layout.zero > 0) text += message(" --zero ", layout.zero);
  if (layout.zero == 3 && layout.reshard == Reshard::Never) text += " --reshard never";
  if (layout.sequenceParallel && layout.mesh.ranks(parallel::kTensorAxes) > 1) text += " --sp";
  if (layout.mesh[Axis::Context] > 1 && layout.contextAttention == ContextAttention::Heads)
    text += " --cp-attention heads";
  if (layout.recompute != Recompute::None)
    text += message(" --recompute ", parallel::toString(layout.recompute));
  return text + pipelineFlags(layout) + microBatchFlags(layout);
}

}  // namespace tutti::tools
