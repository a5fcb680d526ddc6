#pragma once

// Llama: a language model in the style of Llama (Touvron et al.): RMSNorm, rotary positions,
// grouped queries, SwiGLU, no biases. Names of parameters are ours; checkpoints of Hugging Face are
// mapped where they are read.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/nn/expert_options.h"
#include "parallel/nn/language_model.h"
#include "parallel/nn/transformer.h"

namespace tutti::parallel {

struct LlamaOptions {
  int64_t vocabulary = 256;
  int64_t context = 128;  ///< most tokens of one sequence
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t kvHeads = 4;       ///< of keys and values; divides heads
  int64_t inner = 352;       ///< of the MLP
  double ropeBase = 10'000;  ///< the longest wave of the rotary positions is 2 pi times it
  double epsilon = 1e-5;     ///< of the norms
  bool tied = false;         ///< the output map is the token embedding
  /// What lies between branches is cut by rows over the ranks of tensor parallelism, if there are
  /// several.
  bool sequenceParallel = false;
  Recompute recompute = Recompute::None;
  /// How attention gets at the positions of other ranks of context parallelism, if there are any.
  ContextAttention contextAttention = ContextAttention::Ring;
  ExpertOptions experts = {};  ///< of the inner width each
};

/// Throws InvalidArgument, naming the option, when the model cannot be built.
void check(const LlamaOptions& options);
/// Elements of its parameters. In float64, so that no option is too large to ask.
double parameterCount(const LlamaOptions& options);
/// And of those the experts', which the ranks along ep share out.
double expertParameterCount(const LlamaOptions& options);

/// cos and sin of t * base^(-2 i / headWidth), for positions t and i below headWidth / 2, computed
/// in float64 when they are first asked for. One serves all blocks of a model, for in models with
/// many layers and long contexts a table each would take more time and memory than a dry run has.
class RotaryTable {
 public:
  RotaryTable(int64_t context, int64_t headWidth, double base);
  /// [context, headWidth / 2], for tensors of that type: float32, also for bfloat16, or float64;
  /// throws Unsupported for another one. Where the tensors of the mesh's rank are; in a dry run an
  /// address.
  Tensor cosine(DType type, const DeviceMesh& mesh);
  Tensor sine(DType type, const DeviceMesh& mesh);

 private:
  struct Table {
    std::vector<float> floats;
    std::vector<double> doubles;
    std::map<DType, Tensor> onDevice;
  };
  void fill();
  Tensor table(Table& table, DType type, const DeviceMesh& mesh);
  const Shape shape_;
  const double base_;
  Table cosine_, sine_;
  std::optional<Arena> memory_;  // of a GPU
};

struct LlamaBlockOptions {
  std::string name;
  UnitId unit = 0;
  int64_t context = 0, width = 0, heads = 0, kvHeads = 0, inner = 0;
  double ropeBase = 10'000, epsilon = 1e-5;
  double deviation = kDeviation;          ///< first values of the weights
  double residualDeviation = kDeviation;  ///< of the two that write to the residual stream
  bool sequenceParallel = false;          ///< what lies between branches is cut by rows
  bool recomputeAttention = false;        ///< what attention gives is not kept
  ContextAttention contextAttention = ContextAttention::Ring;
  ExpertOptions experts = {};                   ///< count 0: one MLP
  int64_t expertNumber = 0;                     ///< of the block, among those that have experts
  std::shared_ptr<RotaryTable> positions = {};  ///< of the whole model; none: the block's own
};

/// Two linear maps side by side, gate and up, SwiGLU, and one back.
class SwiGluMlp final : public Branch {
 public:
  explicit SwiGluMlp(const LlamaBlockOptions& options);
  using Branch::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  ColumnLinear gateUp_;
  RowLinear down_;
};

/// Causal self-attention with rotary positions and grouped queries.
class RotaryAttention final : public Attention {
 public:
  explicit RotaryAttention(const LlamaBlockOptions& options);

 private:
  void turn(ParallelContext& context, const Tensor& qkv, const Tensor& at, int64_t heads,
            bool back) override;
  const int64_t headWidth_;
  const std::shared_ptr<RotaryTable> table_;
};

class LlamaBlock final : public TransformerBlock {
 public:
  explicit LlamaBlock(const LlamaBlockOptions& options);
};

class Llama final : public LanguageModel {
 public:
  explicit Llama(const LlamaOptions& options);
  const LlamaOptions& options() const { return options_; }

 private:
  LlamaOptions options_;
};

}  // namespace tutti::parallel
