#include "parallel/huggingface/config.h"

#include <algorithm>
#include <array>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/safetensors_header.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr int64_t kMost = 1'000'000'000;
constexpr int64_t kMostLayers = 10'000;  // each is an object; the largest models have some hundreds
constexpr uint64_t kMostConfigBytes = 1'000'000;
constexpr double kGptEpsilon = 1e-5;

/// Of every model: nothing that logits depend on.
constexpr std::array kWithoutEffect{"_name_or_path",
                                    "architectures",
                                    "attention_dropout",
                                    "attn_pdrop",
                                    "bos_token_id",
                                    "chunk_size_feed_forward",
                                    "decoder_start_token_id",
                                    "dtype",
                                    "embd_pdrop",
                                    "eos_token_id",
                                    "id2label",
                                    "initializer_range",
                                    "is_decoder",
                                    "is_encoder_decoder",
                                    "label2id",
                                    "n_ctx",
                                    "output_attentions",
                                    "output_hidden_states",
                                    "output_router_logits",
                                    "pad_token_id",
                                    "problem_type",
                                    "reorder_and_upcast_attn",
                                    "resid_pdrop",
                                    "return_dict",
                                    "summary_activation",
                                    "summary_first_dropout",
                                    "summary_proj_to_labels",
                                    "summary_type",
                                    "summary_use_proj",
                                    "task_specific_params",
                                    "torch_dtype",
                                    "transformers_version",
                                    "use_cache"};

/// The keys of one config. Those that are not asked for are refused at the end.
class HuggingFaceConfig {
 public:
  HuggingFaceConfig(const std::string& where, const Json& json) : members_(where, json) {}

  int64_t size(const char* key) { return members_.whole(key, 1, kMost); }
  int64_t layers(const char* key) { return members_.whole(key, 1, kMostLayers); }
  int64_t size(const char* key, int64_t otherwise) { return nothing(key) ? otherwise : size(key); }
  double number(const char* key, double otherwise) {
    return nothing(key) ? otherwise : members_.number(key);
  }
  bool flag(const char* key, bool otherwise) {
    return nothing(key) ? otherwise : members_.flag(key);
  }
  std::string text(const char* key, const char* otherwise) {
    return nothing(key) ? otherwise : members_.text(key);
  }
  std::string place(const char* key) const { return members_.place(key); }
  const Json& take(const char* key) { return members_.take(key); }
  bool has(const char* key) const { return members_.has(key); }

  /// Refuses the key, unless it is not there, is null, or has the one value that our models have.
  void requireOnly(const char* key, const Json& supported) {
    if (nothing(key)) return;
    const Json& value = members_.take(key);
    if (value != supported)
      fail(ErrorCode::InvalidArgument, place(key), ": ", inQuotes(value.dump()),
           " is not supported here", supported.is_null() ? "" : message(", ", supported, " is"));
  }
  void requireOneOf(const char* key, const std::vector<std::string>& supported) {
    const std::string value = text(key, supported[0].c_str());
    require(std::ranges::find(supported, value) != supported.end(), place(key), ": ",
            inQuotes(value), " is not supported here, ", supported[0], " is");
  }
  void finish() {
    for (const char* key : kWithoutEffect)
      if (has(key)) take(key);
    members_.finish();
  }

 private:
  /// Whether the key is not there, or null, which is the same.
  bool nothing(const char* key) {
    if (!has(key)) return true;
    return members_.take(key).is_null();
  }
  Members members_;
};

/// Who is to do something else with the same weights.
void requireArchitecture(HuggingFaceConfig& config, const std::string& where,
                         const std::vector<std::string>& supported) {
  if (!config.has("architectures") || config.take("architectures").is_null()) return;
  const Json& list = config.take("architectures");
  for (const Json& name : list) {
    const bool known = std::ranges::any_of(supported, [&](const auto& s) { return name == s; });
    require(known, where, ": architectures: ", inQuotes(name.dump()), " is not supported here, ",
            supported[0], " is");
  }
}

/// Of those whose count is known. The keys are Mixtral's, and where it has none those of other
/// models with experts; the last two only train.
void readExperts(HuggingFaceConfig& config, ExpertOptions& experts) {
  experts.perToken = config.size("num_experts_per_tok", 2);
  experts.every = config.size("decoder_sparse_step", 1);
  experts.normalized = config.flag("norm_topk_prob", true);
  experts.capacityFactor = config.number("expert_capacity_factor", 0);
  experts.auxLoss = config.number("router_aux_loss_coef", 0.001);
  experts.zLoss = config.number("router_z_loss_coef", 0);
  config.requireOnly("router_jitter_noise", 0.0);
}

void writeExperts(const ExpertOptions& experts, Json& json) {
  json["num_local_experts"] = experts.count;
  json["num_experts_per_tok"] = experts.perToken;
  json["decoder_sparse_step"] = experts.every;
  json["norm_topk_prob"] = experts.normalized;
  json["expert_capacity_factor"] = experts.capacityFactor;
  json["router_aux_loss_coef"] = experts.auxLoss;
  json["router_z_loss_coef"] = experts.zLoss;
}

GptOptions gptOf(HuggingFaceConfig& config) {
  GptOptions o{.vocabulary = config.size("vocab_size"),
               .context = config.size("n_positions"),
               .layers = config.layers("n_layer"),
               .width = config.size("n_embd"),
               .heads = config.size("n_head")};
  config.requireOnly("n_inner", 4 * o.width);
  config.requireOneOf("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.requireOnly("layer_norm_epsilon", kGptEpsilon);
  config.requireOnly("scale_attn_weights", true);
  config.requireOnly("scale_attn_by_inverse_layer_idx", false);
  config.requireOnly("add_cross_attention", false);
  config.requireOnly("tie_word_embeddings", true);
  if (config.has("num_local_experts")) {
    o.experts.count = config.size("num_local_experts");
    readExperts(config, o.experts);
  }
  return o;
}

/// The base of the rotary positions, which newer files keep with their kind.
double ropeBaseOf(HuggingFaceConfig& config, double otherwise) {
  const double base = config.number("rope_theta", otherwise);
  config.requireOnly("rope_scaling", nullptr);
  config.requireOnly("partial_rotary_factor", 1.0);
  if (!config.has("rope_parameters")) return base;
  const std::string place = config.place("rope_parameters");
  const Json& value = config.take("rope_parameters");
  if (value.is_null()) return base;
  HuggingFaceConfig rope(place, value);
  rope.requireOnly("rope_type", "default");
  rope.requireOnly("partial_rotary_factor", 1.0);
  const double inside = rope.number("rope_theta", base);
  rope.finish();
  return inside;
}

/// What a Llama or a Mixtral is where its config does not say.
struct LlamaDefaults {
  double epsilon, ropeBase;
};

LlamaOptions llamaOf(HuggingFaceConfig& config, const LlamaDefaults& defaults) {
  LlamaOptions o{.vocabulary = config.size("vocab_size"),
                 .context = config.size("max_position_embeddings"),
                 .layers = config.layers("num_hidden_layers"),
                 .width = config.size("hidden_size"),
                 .heads = config.size("num_attention_heads")};
  o.kvHeads = config.size("num_key_value_heads", o.heads);
  o.inner = config.size("intermediate_size");
  o.epsilon = config.number("rms_norm_eps", defaults.epsilon);
  o.tied = config.flag("tie_word_embeddings", false);
  o.ropeBase = ropeBaseOf(config, defaults.ropeBase);
  config.requireOnly("head_dim", o.width / o.heads);
  config.requireOneOf("hidden_act", {"silu", "swish"});
  for (const char* bias : {"attention_bias", "mlp_bias"}) config.requireOnly(bias, false);
  config.requireOnly("pretraining_tp", 1);
  return o;
}

LlamaOptions mixtralOf(HuggingFaceConfig& config) {
  LlamaOptions o = llamaOf(config, {.epsilon = 1e-5, .ropeBase = 1'000'000});
  config.requireOnly("sliding_window", nullptr);
  o.experts.count = config.size("num_local_experts", 8);
  readExperts(config, o.experts);
  return o;
}

Json textOf(const GptOptions& o) {
  Json json{{"model_type", "gpt2"},
            {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", o.vocabulary},
            {"n_positions", o.context},
            {"n_layer", o.layers},
            {"n_embd", o.width},
            {"n_head", o.heads},
            {"n_inner", nullptr},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", kGptEpsilon},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0},
            {"tie_word_embeddings", true}};
  if (o.experts.count > 0) writeExperts(o.experts, json);
  return json;
}

Json textOf(const LlamaOptions& o) {
  const bool experts = o.experts.count > 0;
  Json json{{"model_type", experts ? "mixtral" : "llama"},
            {"architectures", {experts ? "MixtralForCausalLM" : "LlamaForCausalLM"}},
            {"vocab_size", o.vocabulary},
            {"max_position_embeddings", o.context},
            {"num_hidden_layers", o.layers},
            {"hidden_size", o.width},
            {"num_attention_heads", o.heads},
            {"num_key_value_heads", o.kvHeads},
            {"head_dim", o.width / o.heads},
            {"intermediate_size", o.inner},
            {"hidden_act", "silu"},
            {"rms_norm_eps", o.epsilon},
            {"rope_theta", o.ropeBase},
            {"tie_word_embeddings", o.tied}};
  if (experts)
    writeExperts(o.experts, json);
  else
    json["attention_bias"] = json["mlp_bias"] = false;
  return json;
}

}  // namespace

ModelOptions parseConfig(const std::string& where, std::string_view text) {
  const Json json = parseJson(where, text);
  HuggingFaceConfig config(where, json);
  const std::string type = config.text("model_type", "");
  ModelOptions options;
  if (type == "gpt2") {
    requireArchitecture(config, where, {"GPT2LMHeadModel", "GPT2Model"});
    options = gptOf(config);
  } else if (type == "mixtral") {
    requireArchitecture(config, where, {"MixtralForCausalLM"});
    options = mixtralOf(config);
  } else {
    require(type == "llama", where, ": model_type: ", inQuotes(type),
            " is not supported here, gpt2, llama and mixtral are");
    requireArchitecture(config, where, {"LlamaForCausalLM"});
    options = llamaOf(config, {.epsilon = 1e-6, .ropeBase = 10'000});
  }
  config.finish();
  try {
    std::visit([](const auto& o) { check(o); }, options);
  } catch (const Error& error) {
    fail(ErrorCode::InvalidArgument, where, ": ", error.what());
  }
  return options;
}

ModelOptions readConfig(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  return parseConfig(path.string(), readText(path, kMostConfigBytes));
}

void requireExportable(const ModelOptions& options) {
  const auto& experts =
      std::visit([](const auto& o) -> const ExpertOptions& { return o.experts; }, options);
  if (experts.count == 0) return;
  require(std::holds_alternative<LlamaOptions>(options),
          "a GPT with experts has no Hugging Face folder: transformers has no such model");
  const auto refuse = [](bool so, const auto&... what) {
    require(!so, "Mixtral's folder cannot say ", what..., ": transformers would compute without");
  };
  refuse(experts.capacityFactor > 0, "that experts have a capacity");
  refuse(experts.every > 1, "that each ", experts.every, "th block has experts");
  refuse(!experts.normalized, "that weights of experts are not normalized");
}

std::string configText(const ModelOptions& options, DType type) {
  Json json = std::visit([](const auto& o) { return textOf(o); }, options);
  json["torch_dtype"] = toString(type);
  // Theirs are those of their own tokenizers.
  for (const char* token : {"bos_token_id", "eos_token_id"}) json[token] = nullptr;
  return json.dump(2) + "\n";
}

}  // namespace tutti::parallel
