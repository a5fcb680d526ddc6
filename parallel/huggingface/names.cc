#include "parallel/huggingface/names.h"

#include <array>
#include <span>
#include <string_view>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// One parameter of a model, or of each block: ours, theirs, how it is stored, and its shape in
/// multiples of the widths below.
struct Name {
  std::string_view ours, theirs;
  bool transposed = false;
  int64_t part = 0;  ///< of the parts of a fused tensor, which have the parameter's rows each
};

constexpr std::string_view kBlocks = "blocks.", kExperts = "experts.";

constexpr std::array kGptNames{Name{"tokens", "wte.weight"}, Name{"positions", "wpe.weight"},
                               Name{"finalNorm.weight", "ln_f.weight"},
                               Name{"finalNorm.bias", "ln_f.bias"}};
constexpr std::array kGptBlockNames{Name{"beforeAttention.weight", "ln_1.weight"},
                                    Name{"beforeAttention.bias", "ln_1.bias"},
                                    Name{"attention.query.weight", "attn.c_attn.weight", true, 0},
                                    Name{"attention.key.weight", "attn.c_attn.weight", true, 1},
                                    Name{"attention.value.weight", "attn.c_attn.weight", true, 2},
                                    Name{"attention.query.bias", "attn.c_attn.bias", false, 0},
                                    Name{"attention.key.bias", "attn.c_attn.bias", false, 1},
                                    Name{"attention.value.bias", "attn.c_attn.bias", false, 2},
                                    Name{"attention.project.weight", "attn.c_proj.weight", true},
                                    Name{"attention.project.bias", "attn.c_proj.bias"},
                                    Name{"beforeMlp.weight", "ln_2.weight"},
                                    Name{"beforeMlp.bias", "ln_2.bias"},
                                    Name{"mlp.up.weight", "mlp.c_fc.weight", true},
                                    Name{"mlp.up.bias", "mlp.c_fc.bias"},
                                    Name{"mlp.down.weight", "mlp.c_proj.weight", true},
                                    Name{"mlp.down.bias", "mlp.c_proj.bias"}};
constexpr std::array kLlamaNames{Name{"tokens", "model.embed_tokens.weight"},
                                 Name{"finalNorm.weight", "model.norm.weight"},
                                 Name{"output", "lm_head.weight"}};
constexpr std::array kLlamaBlockNames{Name{"beforeAttention.weight", "input_layernorm.weight"},
                                      Name{"attention.query.weight", "self_attn.q_proj.weight"},
                                      Name{"attention.key.weight", "self_attn.k_proj.weight"},
                                      Name{"attention.value.weight", "self_attn.v_proj.weight"},
                                      Name{"attention.project.weight", "self_attn.o_proj.weight"},
                                      Name{"beforeMlp.weight", "post_attention_layernorm.weight"},
                                      Name{"router.weight", "block_sparse_moe.gate.weight"},
                                      Name{"experts.gate.weight", "w1.weight"},
                                      Name{"experts.down.weight", "w2.weight"},
                                      Name{"experts.up.weight", "w3.weight"},
                                      Name{"mlp.gate.weight", "mlp.gate_proj.weight"},
                                      Name{"mlp.up.weight", "mlp.up_proj.weight"},
                                      Name{"mlp.down.weight", "mlp.down_proj.weight"}};

const Name& found(std::span<const Name> names, std::string_view ours) {
  for (const Name& name : names)
    if (name.ours == ours) return name;
  fail(ErrorCode::Internal, "there is no name for the parameter ", ours);
}

/// "3" and "mlp.up.weight" of "blocks.3.mlp.up.weight".
struct InBlock {
  std::string block, rest;
};
InBlock inBlock(std::string_view parameter) {
  const std::string_view name = parameter.substr(kBlocks.size());
  const size_t dot = name.find('.');
  return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
}

bool isGpt(const ModelOptions& options) { return std::holds_alternative<GptOptions>(options); }

/// What stands before the names of a block's tensors.
std::string blockPrefix(const ModelOptions& options, const std::string& block) {
  return (isGpt(options) ? std::string(kGptPrefix) + "h." : "model.layers.") + block + ".";
}

/// And what of a block's expert.
std::string expertPrefix(int64_t expert) {
  return "block_sparse_moe.experts." + std::to_string(expert) + ".";
}

std::map<std::string, Shape> storedTensorsOf(const GptOptions& o) {
  const int64_t width = o.width;
  const std::string top = kGptPrefix;
  std::map<std::string, Shape> tensors{{top + "wte.weight", {o.vocabulary, width}},
                                       {top + "wpe.weight", {o.context, width}},
                                       {top + "ln_f.weight", {width}},
                                       {top + "ln_f.bias", {width}}};
  const std::map<std::string, Shape> block{{"ln_1.weight", {width}},
                                           {"ln_1.bias", {width}},
                                           {"ln_2.weight", {width}},
                                           {"ln_2.bias", {width}},
                                           {"attn.c_attn.weight", {width, 3 * width}},
                                           {"attn.c_attn.bias", {3 * width}},
                                           {"attn.c_proj.weight", {width, width}},
                                           {"attn.c_proj.bias", {width}},
                                           {"mlp.c_fc.weight", {width, 4 * width}},
                                           {"mlp.c_fc.bias", {4 * width}},
                                           {"mlp.c_proj.weight", {4 * width, width}},
                                           {"mlp.c_proj.bias", {width}}};
  for (int64_t i = 0; i < o.layers; ++i)
    for (const auto& [name, shape] : block)
      tensors[blockPrefix(o, std::to_string(i)) + name] = shape;
  return tensors;
}

std::map<std::string, Shape> storedTensorsOf(const LlamaOptions& o) {
  const int64_t width = o.width, kv = width / o.heads * o.kvHeads;
  std::map<std::string, Shape> tensors{{"model.embed_tokens.weight", {o.vocabulary, width}},
                                       {"model.norm.weight", {width}}};
  if (!o.tied) tensors["lm_head.weight"] = {o.vocabulary, width};
  std::map<std::string, Shape> block{
      {"input_layernorm.weight", {width}},         {"post_attention_layernorm.weight", {width}},
      {"self_attn.q_proj.weight", {width, width}}, {"self_attn.k_proj.weight", {kv, width}},
      {"self_attn.v_proj.weight", {kv, width}},    {"self_attn.o_proj.weight", {width, width}}};
  if (o.experts.count == 0) {
    block["mlp.gate_proj.weight"] = block["mlp.up_proj.weight"] = {o.inner, width};
    block["mlp.down_proj.weight"] = {width, o.inner};
  } else {
    block["block_sparse_moe.gate.weight"] = {o.experts.count, width};
  }
  for (int64_t e = 0; e < o.experts.count; ++e) {
    const std::string expert = expertPrefix(e);
    block[expert + "w1.weight"] = block[expert + "w3.weight"] = {o.inner, width};
    block[expert + "w2.weight"] = {width, o.inner};
  }
  for (int64_t i = 0; i < o.layers; ++i)
    for (const auto& [name, shape] : block)
      tensors[blockPrefix(o, std::to_string(i)) + name] = shape;
  return tensors;
}

}  // namespace

namespace {

StoredPlace placeOf(const ModelOptions& options, const std::string& parameter,
                    const std::string& expert) {
  const auto* gpt = std::get_if<GptOptions>(&options);
  if (!parameter.starts_with(kBlocks)) {
    const Name& name = gpt ? found(kGptNames, parameter) : found(kLlamaNames, parameter);
    return {(gpt ? kGptPrefix : "") + std::string(name.theirs)};
  }
  const InBlock place = inBlock(parameter);
  const Name& name = gpt ? found(kGptBlockNames, place.rest) : found(kLlamaBlockNames, place.rest);
  return {blockPrefix(options, place.block) + expert + std::string(name.theirs), name.transposed,
          gpt ? name.part * gpt->width : 0};
}

}  // namespace

StoredPlace placeOf(const ModelOptions& options, const std::string& parameter) {
  return placeOf(options, parameter, "");
}

std::vector<StoredPart> storedParts(const ModelOptions& options, const std::string& parameter,
                                    const Box& box, const Tensor& held) {
  if (held.count() == 0) return {};
  const bool perExpert =
      parameter.starts_with(kBlocks) && inBlock(parameter).rest.starts_with(kExperts);
  if (!perExpert) {
    const StoredPlace place = placeOf(options, parameter);
    return {{place, storedBox(place, box), held}};
  }
  std::vector<StoredPart> parts;
  for (int64_t e = box[0].begin; e < box[0].end; ++e) {
    const Box own{box[1], box[2]};
    const StoredPlace place = placeOf(options, parameter, expertPrefix(e));
    parts.push_back({place, own, held.rows(e - box[0].begin, 1).view(extentsOf(own))});
  }
  return parts;
}

Box storedBox(const StoredPlace& place, Box box) {
  box[0].begin += place.firstRow;
  box[0].end += place.firstRow;
  if (place.transposed) std::swap(box[0], box[1]);
  return box;
}

std::map<std::string, Shape> storedTensors(const ModelOptions& options) {
  return std::visit([](const auto& o) { return storedTensorsOf(o); }, options);
}

bool isSpare(const ModelOptions& options, const std::string& tensor) {
  if (tensor == "lm_head.weight") return isGpt(options) || std::get<LlamaOptions>(options).tied;
  if (!isGpt(options)) return tensor.ends_with(".rotary_emb.inv_freq");
  return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias");
}

}  // namespace tutti::parallel
