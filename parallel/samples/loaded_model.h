#pragma once

// A model that somebody has trained, from a checkpoint of train_gpt's or from a Hugging Face
// folder: which one it is, and its weights.

#include <filesystem>
#include <memory>
#include <string>

#include "parallel/engine/engine.h"
#include "parallel/nn/model_options.h"
#include "parallel/tokenizer/tokenizer.h"

namespace tutti::parallel {

/// What train_gpt puts into the metadata of its checkpoints: the model, as configText() writes it,
/// and the fingerprint of the tokenizer.
inline constexpr const char* kConfigFact = "config.json";
inline constexpr const char* kTokenizerFact = "tokenizer";

struct ModelSource {
  std::filesystem::path folder;  ///< a Hugging Face folder, or one checkpoint
  bool isCheckpoint = false;
  ModelOptions options;
  std::string tokenizer;             ///< path of its tokenizer.json; empty: bytes
  std::string tokenizerFingerprint;  ///< empty: whichever
};

/// `from` is a Hugging Face folder, a checkpoint, or a folder of checkpoints, whose latest is
/// taken. `tokenizer` is the path of a tokenizer.json, or empty: then it is the folder's own.
/// Throws InvalidArgument when there is nothing of the kind, or no tokenizer that fits.
ModelSource findModel(const std::filesystem::path& from, const std::string& tokenizer);
/// Throws InvalidArgument when it is not the one that the model was trained with.
std::unique_ptr<Tokenizer> openTokenizer(const ModelSource& source);
/// Collective.
void loadModel(DeviceMesh& mesh, Engine& engine, const ModelSource& source);

}  // namespace tutti::parallel
