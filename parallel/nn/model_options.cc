#include "parallel/nn/model_options.h"

namespace tutti::parallel {

namespace {

struct Maker {
  std::unique_ptr<Model> operator()(const GptOptions& o) const { return std::make_unique<Gpt>(o); }
  std::unique_ptr<Model> operator()(const LlamaOptions& o) const {
    return std::make_unique<Llama>(o);
  }
};

}  // namespace

std::unique_ptr<Model> makeModel(const ModelOptions& options) {
  return std::visit(Maker(), options);
}

int64_t contextOf(const ModelOptions& options) {
  return std::visit([](const auto& o) { return o.context; }, options);
}

int64_t vocabularyOf(const ModelOptions& options) {
  return std::visit([](const auto& o) { return o.vocabulary; }, options);
}

ModelOptions withContext(ModelOptions options, int64_t context) {
  std::visit([&](auto& o) { o.context = context; }, options);
  return options;
}

}  // namespace tutti::parallel
