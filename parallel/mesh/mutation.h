#pragma once

// Mutation points: every collective of a training, by what it is for, and every factor that makes a
// sum over ranks, micro-batches or tokens what it has to be. Tests break each of them and look
// whether anybody notices (tests/parallel/parity): a collective that is left out or whose result is
// twice as large, and that no test sees, is one that no test has proved.
//
// Everything that ranks exchange goes through MeshCommunicator, which asks for a point, and a test
// of the repository (tests/repository/mutations_test.cc) finds the factors. What one rank computes
// by itself is outside: kernels/, and the optimizer's corrections and schedule. Other
// implementations prove that, without other ranks.
//
// The setting belongs to the process, so that all ranks that are its threads make the same calls
// and none waits for ever. Nothing but a ScopedMutation changes it.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::parallel {

enum class MutationPoint : uint8_t {
  // Among the ranks of tensor parallelism: summands of what is added up in forward,
  EmbeddingSum,
  AttentionSum,
  MlpSum,
  // rows gathered before a map whose outputs are cut, and again for its weights' gradients,
  AttentionRows,
  MlpRows,
  HeadRows,
  AttentionRowsAgain,
  MlpRowsAgain,
  HeadRowsAgain,
  // summands of these maps' input gradients, rows of the output gradients of what was added up,
  AttentionGradientSum,
  MlpGradientSum,
  HeadGradientSum,
  AttentionGradientRows,
  MlpGradientRows,
  EmbeddingGradientRows,
  // what branches that are placed on other ranks give, and their input gradients,
  BranchSum,
  BranchGradientSum,
  // and what the loss needs of each part of the vocabulary.
  LossStatistics,
  // Among the ranks of context parallelism: what travels round the ring,
  RingKeysValues,
  RingKeysValuesAgain,
  RingGradients,
  // positions that are exchanged for heads, back, and the same of gradients,
  HeadInputs,
  HeadResults,
  HeadResultGradients,
  HeadInputGradients,
  // how often the tokens of each piece choose each expert,
  ChoicesOfPieces,
  // and logits of all positions.
  PositionLogits,
  // and of the weights of a token's experts each has a summand of the gradient.
  ExpertWeightGradientSum,
  // Among the ranks of experts: how many tokens come, the tokens, what experts make of them, and
  // gradients the same two ways.
  ExpertCounts,
  ExpertTokens,
  ExpertResults,
  ExpertResultGradients,
  ExpertTokenGradients,
  // The store's: weights for a pass, and to compare replicas,
  ForwardWeights,
  BackwardWeights,
  ComparedWeights,
  // and gradients, some of which are partial over tensor parallelism, or over kTokenAxes, too.
  GradientSum,
  GradientShardSum,
  GradientReplicaSum,
  SharedHeadGradientSum,
  RowsGradientSum,
  TokensGradientSum,
  TiedGradient,
  LossSum,
  NormSum,
  OverflowVerdict,
  ReplicaHashes,
  ReplicaVerdict,
  // Among the stages of a pipeline,
  StageOutput,
  StageGradient,
  // and those and the ranks along kTokenAxes.
  PartLoss,
  StageLogits,
  // The engine's.
  RouterTallies,
  ValidationSum,
  LogitGather,
  TextLengths,
  Texts,
  LargestWord,
  // What a sample itself exchanges.
  SampleTensor,
  // Factors.
  GradientPerToken,
  LossPerToken,
  ValidationPerToken,
  ClippingScale,
  LossScale,
  Unscaling,
  Accumulation,
  SecondUse,
  MapAccumulation,
  ExpertMapAccumulation,
  RouterAccumulation,
  RouterGradientPerSequence,
  RouterTallyPerSequence,
};

/// What a point gives: elements of floating-point types or of integers, integers that count and can
/// be twice as many, elements that ranks only compare, and would find as equal if they were all
/// doubled; a factor, or one that is 0 or 1. Values, counts and factors are dropped and doubled,
/// the others only dropped.
enum class PointResult { Values, Integers, Counts, Compared, Factor, Flag };

struct MutationPointFacts {
  MutationPoint point;
  const char* name;
  PointResult result;
  bool ofHost = false;  ///< a collective of numbers in host memory, whatever device tensors are on
};
/// All of them, in the order of the enumeration.
inline constexpr std::array kMutationPoints{
    MutationPointFacts{MutationPoint::EmbeddingSum, "sum of embeddings", PointResult::Values},
    MutationPointFacts{MutationPoint::AttentionSum, "sum of attention", PointResult::Values},
    MutationPointFacts{MutationPoint::MlpSum, "sum of the MLP", PointResult::Values},
    MutationPointFacts{MutationPoint::AttentionRows, "rows for attention", PointResult::Values},
    MutationPointFacts{MutationPoint::MlpRows, "rows for the MLP", PointResult::Values},
    MutationPointFacts{MutationPoint::HeadRows, "rows for the head", PointResult::Values},
    MutationPointFacts{MutationPoint::AttentionRowsAgain, "rows for attention's weight gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::MlpRowsAgain, "rows for the MLP's weight gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::HeadRowsAgain, "rows for the head's weight gradient",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::AttentionGradientSum, "sum of attention's input gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::MlpGradientSum, "sum of the MLP's input gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::HeadGradientSum, "sum of the head's input gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::AttentionGradientRows, "rows of attention's output gradient",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::MlpGradientRows, "rows of the MLP's output gradient",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::EmbeddingGradientRows, "rows of the embeddings' gradient",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::BranchSum, "sum of placed branches", PointResult::Values},
    MutationPointFacts{MutationPoint::BranchGradientSum, "sum of placed branches' input gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::LossStatistics, "statistics of logits", PointResult::Values},
    MutationPointFacts{MutationPoint::RingKeysValues, "keys and values", PointResult::Values},
    MutationPointFacts{MutationPoint::RingKeysValuesAgain, "keys and values for gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::RingGradients, "gradients of keys and values",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::HeadInputs, "heads of queries, keys and values",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::HeadResults, "rows of what heads give", PointResult::Values},
    MutationPointFacts{MutationPoint::HeadResultGradients, "heads of an output gradient",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::HeadInputGradients,
                       "rows of the gradients of queries, keys and values", PointResult::Values},
    MutationPointFacts{MutationPoint::ChoicesOfPieces, "choices of a sequence's pieces",
                       PointResult::Counts},
    MutationPointFacts{MutationPoint::PositionLogits, "logits of other positions",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::ExpertWeightGradientSum,
                       "sum of the gradients of experts' weights", PointResult::Values},
    MutationPointFacts{MutationPoint::ExpertCounts, "how many tokens come to experts",
                       PointResult::Integers, true},
    MutationPointFacts{MutationPoint::ExpertTokens, "tokens for experts", PointResult::Values},
    MutationPointFacts{MutationPoint::ExpertResults, "what experts make of tokens",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::ExpertResultGradients, "gradients of what experts make",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::ExpertTokenGradients, "gradients of tokens for experts",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::ForwardWeights, "weights for forward", PointResult::Values},
    MutationPointFacts{MutationPoint::BackwardWeights, "weights for backward", PointResult::Values},
    MutationPointFacts{MutationPoint::ComparedWeights, "weights to compare", PointResult::Compared},
    MutationPointFacts{MutationPoint::GradientSum, "sum of gradients", PointResult::Values},
    MutationPointFacts{MutationPoint::GradientShardSum, "sum of gradients, shared out",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::GradientReplicaSum, "sum of replicated shards' gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::SharedHeadGradientSum, "sum of shared heads' gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::RowsGradientSum, "sum of gradients of rows that are cut",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::TokensGradientSum, "sum of other tokens' gradients",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::TiedGradient, "the other gradient of a tied parameter",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::LossSum, "sum of losses", PointResult::Values, true},
    MutationPointFacts{MutationPoint::NormSum, "sum of squares", PointResult::Integers, true},
    MutationPointFacts{MutationPoint::OverflowVerdict, "whether a gradient is not finite",
                       PointResult::Integers, true},
    MutationPointFacts{MutationPoint::ReplicaHashes, "hashes of replicas", PointResult::Integers,
                       true},
    MutationPointFacts{MutationPoint::ReplicaVerdict, "the first replica that differs",
                       PointResult::Integers, true},
    MutationPointFacts{MutationPoint::StageOutput, "what a stage gives the next",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::StageGradient, "the gradient of what a stage was given",
                       PointResult::Values},
    MutationPointFacts{MutationPoint::PartLoss, "losses of stages and of other tokens",
                       PointResult::Values, true},
    MutationPointFacts{MutationPoint::StageLogits, "the last stage's logits", PointResult::Values},
    MutationPointFacts{MutationPoint::RouterTallies, "what routers did", PointResult::Values, true},
    MutationPointFacts{MutationPoint::ValidationSum, "sum of validation losses",
                       PointResult::Integers, true},
    MutationPointFacts{MutationPoint::LogitGather, "logits", PointResult::Values},
    MutationPointFacts{MutationPoint::TextLengths, "lengths of texts", PointResult::Integers, true},
    MutationPointFacts{MutationPoint::Texts, "texts", PointResult::Integers, true},
    MutationPointFacts{MutationPoint::LargestWord, "the largest word of a rank",
                       PointResult::Integers, true},
    MutationPointFacts{MutationPoint::SampleTensor, "a sample's tensor", PointResult::Values},
    MutationPointFacts{MutationPoint::GradientPerToken, "one over the tokens, of the gradient",
                       PointResult::Factor},
    MutationPointFacts{MutationPoint::LossPerToken, "one over the tokens, of the loss",
                       PointResult::Factor},
    MutationPointFacts{MutationPoint::ValidationPerToken, "one over the tokens, of validation",
                       PointResult::Factor},
    MutationPointFacts{MutationPoint::ClippingScale, "the scale of clipping", PointResult::Factor},
    MutationPointFacts{MutationPoint::LossScale, "the loss scale", PointResult::Factor},
    MutationPointFacts{MutationPoint::Unscaling, "one over the loss scale", PointResult::Factor},
    MutationPointFacts{MutationPoint::Accumulation, "what micro-batches before have added",
                       PointResult::Flag},
    MutationPointFacts{MutationPoint::SecondUse, "what a weight's other use has added",
                       PointResult::Flag},
    MutationPointFacts{MutationPoint::MapAccumulation,
                       "what other maps have added to their input's gradient", PointResult::Flag},
    MutationPointFacts{MutationPoint::ExpertMapAccumulation,
                       "what an expert's other map has added to its input's gradient",
                       PointResult::Flag},
    MutationPointFacts{MutationPoint::RouterAccumulation,
                       "what experts have added to a router's input's gradient", PointResult::Flag},
    MutationPointFacts{MutationPoint::RouterGradientPerSequence,
                       "one over the sequences, of the gradient of routers' losses",
                       PointResult::Factor},
    MutationPointFacts{MutationPoint::RouterTallyPerSequence,
                       "one over the sequences, of what routers did", PointResult::Factor},
};
const char* toString(MutationPoint point);
constexpr bool isOfHost(MutationPoint point) {
  return kMutationPoints[static_cast<size_t>(point)].ofHost;
}

/// How a point is passed: by a collective, or as a factor.
enum class PointForm : uint8_t {
  AllReduce,
  ReduceScatter,
  ReduceScatterV,
  AllGather,
  AllGatherV,
  AllToAll,
  AllToAllV,
  Exchange,
  Factor
};
inline constexpr int kPointFormCount = 9;
const char* toString(PointForm form);

/// Drop: a collective is not called on any rank, and gives what it would if the others had zeros
/// only; a factor is one, unless its user says otherwise. Double: the result is multiplied by two.
enum class Change : uint8_t { Drop, Double };

struct Mutation {
  MutationPoint point;
  Change change;
};

/// `value`, or as the mutation of `point` changes it; `dropped` is what is left without the factor.
double factor(MutationPoint point, double value, double dropped = 1);

/// Of MeshCommunicator and factor(): counts a pass, and says what is to be changed.
std::optional<Change> passMutationPoint(MutationPoint point, PointForm form);

/// For tests: makes the mutation, if one is given, and counts passes, for as long as it lives. One
/// at a time in a process (Internal), made and destroyed while no rank computes.
class ScopedMutation {
 public:
  explicit ScopedMutation(std::optional<Mutation> mutation = {});
  ~ScopedMutation();
  ScopedMutation(const ScopedMutation&) = delete;
  ScopedMutation& operator=(const ScopedMutation&) = delete;

  struct Passes {
    MutationPoint point;
    PointForm form;
    int64_t count;  ///< of all ranks of this process
  };
  /// Of the points that were passed.
  std::vector<Passes> passes() const;
};

}  // namespace tutti::parallel
