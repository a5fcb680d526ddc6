#include "parallel/huggingface/model_names.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "parallel/huggingface/config.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

GptOptions gpt2(int64_t layers, int64_t width, int64_t heads) {
  return {.vocabulary = 50257, .context = 1024, .layers = layers, .width = width, .heads = heads};
}

LlamaOptions llama2(int64_t layers, int64_t width, int64_t heads, int64_t inner) {
  return {.vocabulary = 32000,
          .context = 4096,
          .layers = layers,
          .width = width,
          .heads = heads,
          .kvHeads = heads,
          .inner = inner};
}

LlamaOptions llama3(int64_t layers, int64_t width, int64_t heads, int64_t inner) {
  return {.vocabulary = 128256,
          .context = 8192,
          .layers = layers,
          .width = width,
          .heads = heads,
          .kvHeads = 8,
          .inner = inner,
          .ropeBase = 500'000};
}

LlamaOptions mixtral(int64_t layers, int64_t width, int64_t heads, int64_t inner, int64_t context) {
  return {.vocabulary = 32000,
          .context = context,
          .layers = layers,
          .width = width,
          .heads = heads,
          .kvHeads = 8,
          .inner = inner,
          .ropeBase = 1'000'000,
          .experts = {.count = 8, .perToken = 2}};
}

const std::vector<std::pair<std::string, ModelOptions>>& models() {
  static const std::vector<std::pair<std::string, ModelOptions>> kModels = {
      {"gpt2", gpt2(12, 768, 12)},
      {"gpt2-medium", gpt2(24, 1024, 16)},
      {"gpt2-large", gpt2(36, 1280, 20)},
      {"gpt2-xl", gpt2(48, 1600, 25)},
      {"llama-7b", llama2(32, 4096, 32, 11008)},
      {"llama-13b", llama2(40, 5120, 40, 13824)},
      {"llama-8b", llama3(32, 4096, 32, 14336)},
      {"llama-70b", llama3(80, 8192, 64, 28672)},
      {"llama-405b", llama3(126, 16384, 128, 53248)},
      {"mixtral-8x7b", mixtral(32, 4096, 32, 14336, 32768)},
      {"mixtral-8x22b", mixtral(56, 6144, 48, 16384, 65536)}};
  return kModels;
}

}  // namespace

std::optional<ModelOptions> modelNamed(const std::string& name) {
  for (const auto& [known, options] : models())
    if (known == name) return options;
  return std::nullopt;
}

std::string modelNames() {
  std::string names;
  for (const auto& [name, options] : models()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

ModelOptions modelOfFlag(const std::string& name) {
  if (const auto known = modelNamed(name)) return *known;
  std::error_code error;
  require(std::filesystem::is_directory(name, error), "--model ", name,
          " is neither a folder with a config.json nor one of ", modelNames());
  return readConfig(name);
}

}  // namespace tutti::parallel
