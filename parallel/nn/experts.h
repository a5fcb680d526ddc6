#pragma once

// Experts: a mixture of experts in the place of a block's MLP (Shazeer et al., "Outrageously Large
// Neural Networks").
//
//   x --+-- router: softmax, the k largest -- weights ---------------+
//       +-- rows put together by expert -- each expert's MLP -- sum of k, weighted --> y
//
// Definitions. A *group* (GShard's) is a sequence, of T tokens: what follows is of each sequence by
// itself, so that neither the number of micro-batches nor that of ranks, nor padding to a shape,
// makes a difference. Experts are numbered from 0, E of them, k for each token.
//
//   p(t, e)    softmax over e of the router's logits, in float32 or wider
//   chosen     the k largest of a token, of equal ones the lower numbers
//   weights    p of these; normalized: over their sum (Jiang et al., "Mixtral of Experts"); not
//              normalized with k = 1 it is Switch's (Fedus et al., "Switch Transformers")
//   capacity   C = ceil(factor * k * T / E): of the tokens that choose an expert the first C of the
//              sequence get it, by position; of the others the choice is dropped, which adds
//              nothing to y, and their other choices' weights stay as they are. Factor 0: dropless
//              (Gale et al., "MegaBlocks"). What a token gets does not depend on later ones, but
//              for T.
//   balance    E * sum over e of f(e) P(e), f(e) the share that e has of all k T choices, dropped
//              ones too, and P(e) the mean of p(., e): 1 if all are alike. Switch's, with k
//              choices; f has no gradient
//   z          mean over t of (log of the sum of exp(logits))^2 (Zoph et al., "ST-MoE")
//
// The loss that is minimized is the cross-entropy + auxLoss * balance + zLoss * z, the last two
// summed over blocks and averaged over the sequences of the global batch. backward adds their
// gradients; the reported loss is the cross-entropy alone. All positions take part, also those
// whose labels do not count.
//
// Over ranks. Each rank along ep has some of the experts, and rows go there and back
// (nn/expert_parallel.h). An expert's MLP is cut over tensor parallelism as a dense one is; all of
// these ranks route all of their sequences' tokens, each its own summand of y. Ranks along cp route
// the positions that they have of each sequence, and tell each other how often these choose each
// expert, piece by piece (one AllGather of 2 E counts a sequence): with the choices of the pieces
// before its own a rank knows which of its tokens are among an expert's first C, and with those of
// all pieces f. P and z are sums over its tokens, to which the others add theirs where they are
// reported; no gradient needs them.
//
// Memory. Rows that experts get depend on data. With a capacity, memory for the most that there can
// be (of sequences as many as this rank has on each) is taken at once, in a dry run too. Dropless
// takes what it needs, and a dry run what it needs if all experts are used alike: less than
// some ranks of a real one.

#include <vector>

#include "parallel/nn/expert_options.h"
#include "parallel/nn/layers.h"

namespace tutti::parallel {

struct ExpertsOptions {
  std::string name;  ///< of the block
  UnitId unit = 0;
  int64_t width = 0, inner = 0;
  bool gated = false;  ///< experts are SwiGLU MLPs; otherwise two maps around a GELU
  bool bias = true;
  double deviation = kDeviation, residualDeviation = kDeviation;
  bool sequenceParallel = false;
  const BranchPurposes& purposes;  ///< a reference, so that nobody leaves it out
  ExpertOptions experts;
  int64_t number = 0;  ///< of this block among those that have experts
};

/// Elements of the weights of one such MLP, all experts' and the router's, in float64.
double expertParameters(const ExpertsOptions& options);
double routerParameters(const ExpertsOptions& options);
/// Multiplications for each token.
int64_t expertCost(const ExpertsOptions& options);

class Experts final : public Branch {
 public:
  explicit Experts(const ExpertsOptions& options);
  using Branch::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  /// Throws InvalidArgument also when the ranks along ep do not divide the experts.
  void declare(ParameterStore& store) override;

 private:
  /// Maps of all experts, and what they are cut by.
  struct Map {
    Parameter weight, bias;
  };
  /// What forward leaves for backward.
  struct Kept {
    Tensor x, probabilities, logSumExp, chosen, weights, choices, places, counts;
    Tensor rows, inner, active, results;
  };
  Map mapOf(const char* name, int64_t outputs, int64_t inputs, int cut, double deviation) const;
  int64_t capacity(int64_t length) const;
  std::vector<int64_t> place(ParallelContext& context, const ActivationStash& stash,
                             const Kept& kept) const;
  ExpertTraffic route(ParallelContext& context, const Tensor& all, ActivationStash& stash,
                      Kept& kept) const;
  void takeRoom(ExpertTraffic& traffic, const ActivationStash& stash, int ranks) const;
  void begin(ParallelContext& context, const ExpertTraffic& traffic, ActivationStash& stash,
             Kept& kept);
  Tensor end(ParallelContext& context, const ExpertTraffic& traffic, ActivationStash& stash,
             const Tensor& active);
  Tensor dLogits(ParallelContext& context, const Tensor& dy, const Kept& kept,
                 ActivationStash& stash);
  Tensor dInner(ParallelContext& context, const ExpertTraffic& traffic, const Tensor& dResults,
                const Kept& kept, ActivationStash& stash);
  Tensor dInput(ParallelContext& context, const ExpertTraffic& traffic, const Tensor& dInnerRows,
                const Tensor& dLogitRows, const Kept& kept, ActivationStash& stash);
  Tensor ownRows(const ParallelContext& context, const Tensor& all) const;
  void count(ParallelContext& context, const Tensor& counts) const;
  void appendWork(const Kept& kept, const Tensor& dResults, const Tensor& dInnerRows,
                  const Tensor& dLogitRows, int64_t sentRows, ActivationStash& stash);
  void mapGradients(ParallelContext& context, const Map& map, const ExpertTraffic& traffic,
                    const Tensor& x, const Tensor& dy, int microBatch) const;
  static void keep(const Kept& kept, ActivationStash& stash);
  static Kept takeKept(ActivationStash& stash);

  const ExpertsOptions o_;
  const BranchPurposes purposes_;
  Parameter router_;
  std::vector<Map> ups_;  // gate and up, or up
  Map down_;
};

}  // namespace tutti::parallel
