#include "parallel/samples/loaded_model.h"

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/names.h"
#include "parallel/huggingface/folder.h"
#include "parallel/huggingface/sizes.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

namespace fs = std::filesystem;

std::string fact(const CheckpointReader& reader, const fs::path& folder, const char* key) {
  const auto found = reader.metadata().find(key);
  const auto* text =
      found == reader.metadata().end() ? nullptr : std::get_if<std::string>(&found->second);
  require(text != nullptr, folder.string(), ": metadata: there is no ", key,
          ": it is no checkpoint of train_gpt's");
  return *text;
}

/// Throws InvalidArgument when the model is larger than what the checkpoint holds, before anything
/// is made of it. What is in it otherwise is found when it is loaded.
void requireHeld(const CheckpointReader& reader, const std::string& place,
                 const ModelOptions& options) {
  const std::vector<std::string> names = reader.names();
  const int64_t layers = std::visit([](const auto& o) { return o.layers; }, options);
  const int64_t found = countBehind("blocks.", names);
  require(layers == found, place, ": ", layersKey(options), ": it is ", layers,
          ", and the checkpoint has ", found, " layers");
  double held = 0;
  for (const std::string& name : names)
    held += static_cast<double>(reader.tensor(name).shape.count());
  const double needed = std::visit([](const auto& o) { return parameterCount(o); }, options);
  require(needed <= held, place, ": its model has ", needed, " parameters, and the checkpoint ",
          held, " elements");
}

ModelSource checkpointAt(const fs::path& folder, const std::string& tokenizer) {
  const CheckpointReader reader(folder);
  reader.requireFiles();
  const std::string place = message(folder.string(), ": metadata: ", kConfigFact);
  const ModelOptions options = parseConfig(place, fact(reader, folder, kConfigFact));
  requireHeld(reader, place, options);
  return {.folder = folder,
          .isCheckpoint = true,
          .options = options,
          .tokenizer = tokenizer,
          .tokenizerFingerprint = fact(reader, folder, kTokenizerFact)};
}

ModelSource huggingFaceAt(const fs::path& folder, const std::string& tokenizer) {
  const fs::path own = folder / "tokenizer.json";
  require(!tokenizer.empty() || fs::exists(own), folder.string(),
          " has no tokenizer.json: --tokenizer is needed");
  return {.folder = folder,
          .options = readModel(folder),
          .tokenizer = tokenizer.empty() ? own.string() : tokenizer};
}

}  // namespace

ModelSource findModel(const fs::path& from, const std::string& tokenizer) {
  if (fs::exists(from / "config.json")) return huggingFaceAt(from, tokenizer);
  if (fs::exists(from / kManifestName)) return checkpointAt(from, tokenizer);
  const auto latest = latestCheckpoint(from);
  require(latest.has_value(), from.string(),
          " has neither a config.json, nor a checkpoint, nor is it one");
  return checkpointAt(*latest, tokenizer);
}

std::unique_ptr<Tokenizer> openTokenizer(const ModelSource& source) {
  auto tokenizer = openTokenizer(source.tokenizer);
  const std::string& wanted = source.tokenizerFingerprint;
  require(wanted.empty() || wanted == tokenizer->fingerprint(), source.folder.string(),
          " was trained with tokenizer ", wanted,
          source.tokenizer.empty()
              ? ": its tokenizer.json is needed, as --tokenizer"
              : message(", and --tokenizer ", source.tokenizer, " is ", tokenizer->fingerprint()));
  return tokenizer;
}

void loadModel(DeviceMesh& mesh, Engine& engine, const ModelSource& source) {
  if (source.isCheckpoint)
    engine.loadWeights(source.folder);
  else
    loadWeights(mesh, engine.store(), source.folder);
}

}  // namespace tutti::parallel
