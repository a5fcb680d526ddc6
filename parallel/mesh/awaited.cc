#include "parallel/mesh/awaited.h"

namespace tutti::parallel {

const char* toString(Awaited awaited) {
  switch (awaited) {
    case Awaited::Pipeline: return "pipeline";
    case Awaited::Data: return "data";
    case Awaited::Tensor: return "tensor";
    case Awaited::Context: return "context";
    case Awaited::Experts: return "experts";
    case Awaited::All: return "all";
  }
  return "?";
}

/// Without a default, so that the compiler asks for whom a new point waits.
Awaited awaitedAt(MutationPoint point) {
  using enum MutationPoint;
  switch (point) {
    case StageOutput:
    case StageGradient:
    case StageLogits:
    case TiedGradient: return Awaited::Pipeline;
    case ForwardWeights:
    case BackwardWeights:
    case ComparedWeights:
    case GradientSum:
    case GradientShardSum:
    case GradientReplicaSum:
    case TokensGradientSum: return Awaited::Data;
    case EmbeddingSum:
    case AttentionSum:
    case MlpSum:
    case AttentionRows:
    case MlpRows:
    case HeadRows:
    case AttentionRowsAgain:
    case MlpRowsAgain:
    case HeadRowsAgain:
    case AttentionGradientSum:
    case MlpGradientSum:
    case HeadGradientSum:
    case AttentionGradientRows:
    case MlpGradientRows:
    case EmbeddingGradientRows:
    case BranchSum:
    case BranchGradientSum:
    case LossStatistics:
    case ExpertWeightGradientSum:
    case SharedHeadGradientSum:
    case RowsGradientSum:
    case LogitGather: return Awaited::Tensor;
    case RingKeysValues:
    case RingKeysValuesAgain:
    case RingGradients:
    case HeadInputs:
    case HeadResults:
    case HeadResultGradients:
    case HeadInputGradients:
    case ChoicesOfPieces:
    case PositionLogits: return Awaited::Context;
    case ExpertCounts:
    case ExpertTokens:
    case ExpertResults:
    case ExpertResultGradients:
    case ExpertTokenGradients: return Awaited::Experts;
    case LossSum:
    case NormSum:
    case OverflowVerdict:
    case ReplicaHashes:
    case ReplicaVerdict:
    case PartLoss:
    case RouterTallies:
    case ValidationSum:
    case TextLengths:
    case Texts:
    case LargestWord:
    case SampleTensor:
    // These are factors, and nobody waits at them.
    case GradientPerToken:
    case LossPerToken:
    case ValidationPerToken:
    case ClippingScale:
    case LossScale:
    case Unscaling:
    case Accumulation:
    case SecondUse:
    case MapAccumulation:
    case ExpertMapAccumulation:
    case RouterAccumulation:
    case RouterGradientPerSequence:
    case RouterTallyPerSequence: return Awaited::All;
  }
  return Awaited::All;
}

}  // namespace tutti::parallel
