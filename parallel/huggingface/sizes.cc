#include "parallel/huggingface/sizes.h"

#include <set>

#include "parallel/checkpoint/json.h"
#include "parallel/huggingface/names.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// A size of the model.
struct ConfigSize {
  const char* key;
  int64_t value;
};
/// A matrix that has two of them.
struct SizedTensor {
  std::string name;
  ConfigSize rows, columns;
};

std::vector<SizedTensor> sizedTensors(const GptOptions& o) {
  const std::string top = kGptPrefix;
  const ConfigSize width{"n_embd", o.width};
  return {{top + "wte.weight", {"vocab_size", o.vocabulary}, width},
          {top + "wpe.weight", {"n_positions", o.context}, width}};
}

std::vector<SizedTensor> sizedTensors(const LlamaOptions& o) {
  const std::string first = "model.layers.0.";
  const ConfigSize width{"hidden_size", o.width}, inner{"intermediate_size", o.inner};
  return {{"model.embed_tokens.weight", {"vocab_size", o.vocabulary}, width},
          {first + (o.experts.count > 0 ? "block_sparse_moe.experts.0.w1.weight"
                                        : "mlp.gate_proj.weight"),
           inner, width}};
}

void requireCount(const std::string& config, const ConfigSize& size, int64_t found,
                  const char* what) {
  require(size.value == found, config, ": ", size.key, ": it is ", size.value,
          ", and the weights have ", found, " ", what);
}

void requireRows(const std::string& config, const ConfigSize& size, const std::string& tensor,
                 const Shape& shape, int dimension) {
  require(shape.rank() == 2 && shape[dimension] == size.value, config, ": ", size.key, ": it is ",
          size.value, ", and tensor ", inQuotes(tensor), " of the weights is ", shape);
}

}  // namespace

int64_t countBehind(const std::string& prefix, const std::vector<std::string>& names) {
  std::set<std::string> numbers;
  for (const std::string& name : names)
    if (name.starts_with(prefix))
      numbers.insert(name.substr(prefix.size(), name.find('.', prefix.size()) - prefix.size()));
  return std::ssize(numbers);
}

const char* layersKey(const ModelOptions& options) {
  return std::holds_alternative<GptOptions>(options) ? "n_layer" : "num_hidden_layers";
}

void requireSizesOf(const StoredShapes& stored, const std::string& config,
                    const ModelOptions& options) {
  const bool gpt = std::holds_alternative<GptOptions>(options);
  const auto behind = [&](const std::string& prefix) { return countBehind(prefix, stored.names); };
  const int64_t layers = std::visit([](const auto& o) { return o.layers; }, options);
  const int64_t experts = std::visit([](const auto& o) { return o.experts.count; }, options);
  // GPT-2's own folder has no prefix.
  const int64_t found =
      gpt ? behind(std::string(kGptPrefix) + "h.") + behind("h.") : behind("model.layers.");
  requireCount(config, {layersKey(options), layers}, found, "layers");
  requireCount(config, {"num_local_experts", experts},
               gpt ? 0 : behind("model.layers.0.block_sparse_moe.experts."), "experts in a layer");
  for (const SizedTensor& tensor :
       std::visit([](const auto& o) { return sizedTensors(o); }, options)) {
    const Shape shape = stored.shapeOf(tensor.name);
    requireRows(config, tensor.rows, tensor.name, shape, 0);
    requireRows(config, tensor.columns, tensor.name, shape, 1);
  }
}

}  // namespace tutti::parallel
