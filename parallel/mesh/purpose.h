#pragma once

// Purposes: every exchange of a training, by what it is for, and every factor that makes a sum over
// ranks, micro-batches or tokens what it has to be. Each has one row of a table, kPurposes: traces
// and metrics take from it for whom a rank waits, MeshCommunicator where the numbers are, and tests
// what may be changed (tests/parallel/parity).
//
// Everything that ranks exchange goes through MeshCommunicator, which asks for a purpose, and a
// test of the repository (tests/repository/mutations_test.cc) finds the factors. What one rank
// computes by itself has no purpose: kernels/, and the optimizer's corrections and schedule.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "parallel/mesh/awaited.h"

namespace tutti::parallel {

enum class Purpose : uint8_t {
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

/// How a purpose is served: by a collective, by messages between ranks, or as a factor.
enum class PurposeForm : uint8_t {
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
inline constexpr int kPurposeFormCount = 9;
const char* toString(PurposeForm form);

/// Some of them; at least one, in the table.
class PurposeForms {
 public:
  constexpr PurposeForms(PurposeForm form) : bits_(bitOf(form)) {}
  constexpr PurposeForms(std::initializer_list<PurposeForm> forms) {
    for (const PurposeForm form : forms) bits_ |= bitOf(form);
  }
  constexpr bool contains(PurposeForm form) const { return (bits_ & bitOf(form)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const PurposeForms&) const = default;

 private:
  static constexpr uint32_t bitOf(PurposeForm form) { return 1u << static_cast<unsigned>(form); }
  uint32_t bits_ = 0;
};

/// What a purpose's exchange or factor gives.
enum class PurposeResult : uint8_t {
  Values,    ///< elements of floating-point types
  Integers,  ///< that mean something else when they are doubled, such as hashes
  Counts,    ///< integers that stay counts when they are doubled
  Compared,  ///< elements that ranks only compare, and find equal when all are doubled
  Factor,    ///< a number that multiplies
  Flag       ///< a factor that is 0 or 1
};

/// Where the numbers are: with the tensors, on a GPU where these are; or always with the host.
enum class PurposePlace : uint8_t { Device, Host };

/// A row of the table. Its constructor wants every field: one that is left out does not compile.
struct PurposeRow {
  Purpose purpose;
  const char* name;
  PurposeForms forms;
  PurposeResult result;
  PurposePlace place;
  std::optional<Awaited> awaited;  ///< for whom a rank waits in it; nobody in factors

  constexpr PurposeRow(Purpose itsPurpose, const char* itsName, PurposeForms itsForms,
                       PurposeResult itsResult, PurposePlace itsPlace,
                       std::optional<Awaited> itsAwaited)
      : purpose(itsPurpose),
        name(itsName),
        forms(itsForms),
        result(itsResult),
        place(itsPlace),
        awaited(itsAwaited) {}
};

/// All of them, in the order of the enumeration.
inline constexpr auto kPurposes = [] {
  using enum Purpose;
  using enum PurposeResult;
  using enum PurposePlace;
  using Form = PurposeForm;
  constexpr PurposeForms kSummands{Form::AllReduce, Form::ReduceScatter, Form::ReduceScatterV};
  constexpr PurposeForms kRows{Form::AllGather, Form::AllGatherV};
  constexpr PurposeForms kCollectives{Form::AllReduce, Form::ReduceScatter, Form::ReduceScatterV,
                                      Form::AllGather, Form::AllGatherV,    Form::AllToAll,
                                      Form::AllToAllV};
  constexpr std::optional<Awaited> kNobody;
  return std::to_array<PurposeRow>({
      {EmbeddingSum, "sum of embeddings", kSummands, Values, Device, Awaited::Tensor},
      {AttentionSum, "sum of attention", kSummands, Values, Device, Awaited::Tensor},
      {MlpSum, "sum of the MLP", kSummands, Values, Device, Awaited::Tensor},
      {AttentionRows, "rows for attention", kRows, Values, Device, Awaited::Tensor},
      {MlpRows, "rows for the MLP", kRows, Values, Device, Awaited::Tensor},
      {HeadRows, "rows for the head", kRows, Values, Device, Awaited::Tensor},
      {AttentionRowsAgain, "rows for attention's weight gradients", kRows, Values, Device,
       Awaited::Tensor},
      {MlpRowsAgain, "rows for the MLP's weight gradients", kRows, Values, Device, Awaited::Tensor},
      {HeadRowsAgain, "rows for the head's weight gradient", kRows, Values, Device,
       Awaited::Tensor},
      {AttentionGradientSum, "sum of attention's input gradients", kSummands, Values, Device,
       Awaited::Tensor},
      {MlpGradientSum, "sum of the MLP's input gradients", kSummands, Values, Device,
       Awaited::Tensor},
      {HeadGradientSum, "sum of the head's input gradients", kSummands, Values, Device,
       Awaited::Tensor},
      {AttentionGradientRows, "rows of attention's output gradient", kRows, Values, Device,
       Awaited::Tensor},
      {MlpGradientRows, "rows of the MLP's output gradient", kRows, Values, Device,
       Awaited::Tensor},
      {EmbeddingGradientRows, "rows of the embeddings' gradient", kRows, Values, Device,
       Awaited::Tensor},
      {BranchSum, "sum of placed branches", Form::AllReduce, Values, Device, Awaited::Tensor},
      {BranchGradientSum, "sum of placed branches' input gradients", Form::AllReduce, Values,
       Device, Awaited::Tensor},
      {LossStatistics, "statistics of logits", Form::AllGather, Values, Device, Awaited::Tensor},
      {RingKeysValues, "keys and values", Form::Exchange, Values, Device, Awaited::Context},
      {RingKeysValuesAgain, "keys and values for gradients", Form::Exchange, Values, Device,
       Awaited::Context},
      {RingGradients, "gradients of keys and values", Form::Exchange, Values, Device,
       Awaited::Context},
      {HeadInputs, "heads of queries, keys and values", Form::AllToAllV, Values, Device,
       Awaited::Context},
      {HeadResults, "rows of what heads give", Form::AllToAllV, Values, Device, Awaited::Context},
      {HeadResultGradients, "heads of an output gradient", Form::AllToAllV, Values, Device,
       Awaited::Context},
      {HeadInputGradients, "rows of the gradients of queries, keys and values", Form::AllToAllV,
       Values, Device, Awaited::Context},
      {ChoicesOfPieces, "choices of a sequence's pieces", Form::AllGatherV, Counts, Device,
       Awaited::Context},
      {PositionLogits, "logits of other positions", Form::AllGatherV, Values, Device,
       Awaited::Context},
      {ExpertWeightGradientSum, "sum of the gradients of experts' weights", Form::AllReduce, Values,
       Device, Awaited::Tensor},
      {ExpertCounts, "how many tokens come to experts", Form::AllToAll, Integers, Host,
       Awaited::Experts},
      {ExpertTokens, "tokens for experts", Form::AllToAllV, Values, Device, Awaited::Experts},
      {ExpertResults, "what experts make of tokens", Form::AllToAllV, Values, Device,
       Awaited::Experts},
      {ExpertResultGradients, "gradients of what experts make", Form::AllToAllV, Values, Device,
       Awaited::Experts},
      {ExpertTokenGradients, "gradients of tokens for experts", Form::AllToAllV, Values, Device,
       Awaited::Experts},
      {ForwardWeights, "weights for forward", Form::AllGather, Values, Device, Awaited::Data},
      {BackwardWeights, "weights for backward", Form::AllGather, Values, Device, Awaited::Data},
      {ComparedWeights, "weights to compare", Form::AllGather, Compared, Device, Awaited::Data},
      {GradientSum, "sum of gradients", Form::AllReduce, Values, Device, Awaited::Data},
      {GradientShardSum, "sum of gradients, shared out", Form::ReduceScatter, Values, Device,
       Awaited::Data},
      {GradientReplicaSum, "sum of replicated shards' gradients", Form::AllReduce, Values, Device,
       Awaited::Data},
      {SharedHeadGradientSum, "sum of shared heads' gradients", Form::AllReduce, Values, Device,
       Awaited::Tensor},
      {RowsGradientSum, "sum of gradients of rows that are cut", Form::AllReduce, Values, Device,
       Awaited::Tensor},
      {TokensGradientSum, "sum of other tokens' gradients", Form::AllReduce, Values, Device,
       Awaited::Data},
      {TiedGradient, "the other gradient of a tied parameter", Form::Exchange, Values, Device,
       Awaited::Pipeline},
      {LossSum, "sum of losses", Form::AllReduce, Values, Host, Awaited::All},
      {NormSum, "sum of squares", Form::AllReduce, Integers, Host, Awaited::All},
      {OverflowVerdict, "whether a gradient is not finite", Form::AllReduce, Integers, Host,
       Awaited::All},
      {ReplicaHashes, "hashes of replicas", Form::AllReduce, Integers, Host, Awaited::All},
      {ReplicaVerdict, "the first replica that differs", Form::AllReduce, Integers, Host,
       Awaited::All},
      {StageOutput, "what a stage gives the next", Form::Exchange, Values, Device,
       Awaited::Pipeline},
      {StageGradient, "the gradient of what a stage was given", Form::Exchange, Values, Device,
       Awaited::Pipeline},
      {PartLoss, "losses of stages and of other tokens", Form::AllReduce, Values, Host,
       Awaited::All},
      {StageLogits, "the last stage's logits", Form::AllReduce, Values, Device, Awaited::Pipeline},
      {RouterTallies, "what routers did", Form::AllReduce, Values, Host, Awaited::All},
      {ValidationSum, "sum of validation losses", Form::AllReduce, Integers, Host, Awaited::All},
      {LogitGather, "logits", kRows, Values, Device, Awaited::Tensor},
      {TextLengths, "lengths of texts", Form::AllGather, Integers, Host, Awaited::All},
      {Texts, "texts", Form::AllGatherV, Integers, Host, Awaited::All},
      {LargestWord, "the largest word of a rank", Form::AllReduce, Integers, Host, Awaited::All},
      {SampleTensor, "a sample's tensor", kCollectives, Values, Device, Awaited::All},
      {GradientPerToken, "one over the tokens, of the gradient", Form::Factor, Factor, Host,
       kNobody},
      {LossPerToken, "one over the tokens, of the loss", Form::Factor, Factor, Host, kNobody},
      {ValidationPerToken, "one over the tokens, of validation", Form::Factor, Factor, Host,
       kNobody},
      {ClippingScale, "the scale of clipping", Form::Factor, Factor, Host, kNobody},
      {LossScale, "the loss scale", Form::Factor, Factor, Host, kNobody},
      {Unscaling, "one over the loss scale", Form::Factor, Factor, Host, kNobody},
      {Accumulation, "what micro-batches before have added", Form::Factor, Flag, Host, kNobody},
      {SecondUse, "what a weight's other use has added", Form::Factor, Flag, Host, kNobody},
      {MapAccumulation, "what other maps have added to their input's gradient", Form::Factor, Flag,
       Host, kNobody},
      {ExpertMapAccumulation, "what an expert's other map has added to its input's gradient",
       Form::Factor, Flag, Host, kNobody},
      {RouterAccumulation, "what experts have added to a router's input's gradient", Form::Factor,
       Flag, Host, kNobody},
      {RouterGradientPerSequence, "one over the sequences, of the gradient of routers' losses",
       Form::Factor, Factor, Host, kNobody},
      {RouterTallyPerSequence, "one over the sequences, of what routers did", Form::Factor, Factor,
       Host, kNobody},
  });
}();

constexpr const PurposeRow& rowOf(Purpose purpose) {
  return kPurposes[static_cast<size_t>(purpose)];
}
const char* toString(Purpose purpose);
constexpr bool isOfHost(Purpose purpose) { return rowOf(purpose).place == PurposePlace::Host; }

/// `value`; while a test observes, what the observer makes of it (exchange_observer.h). `without`
/// is what is left where the factor is left out.
double factor(Purpose purpose, double value, double without = 1);

}  // namespace tutti::parallel
