#include "parallel/samples/train_gpt/train_folders.h"

#include <array>
#include <filesystem>
#include <string>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/names.h"
#include "parallel/huggingface/config.h"
#include "parallel/huggingface/folder.h"
#include "parallel/samples/loaded_model.h"

namespace tutti::parallel {

namespace {

/// A size of a model: its member of config.json, and the flag that sets it.
struct SizeFlag {
  const char* member;
  const char* flag;
};
constexpr std::array<SizeFlag, 5> kSizeFlags{{{"n_embd", "--width"},
                                              {"n_layer", "--layers"},
                                              {"n_head", "--heads"},
                                              {"n_positions", "--context"},
                                              {"num_local_experts", "--experts"}}};

/// The config.json of a checkpoint's model; none where it cannot be read, which is said of the
/// checkpoint when it is loaded.
OrderedJson configOf(const std::filesystem::path& checkpoint) {
  try {
    const Metadata metadata = CheckpointReader(checkpoint).metadata();
    const auto found = metadata.find(kConfigFact);
    const auto* text = found == metadata.end() ? nullptr : std::get_if<std::string>(&found->second);
    return text ? OrderedJson::parse(*text, nullptr, false) : OrderedJson();
  } catch (const Error&) {
    return {};
  }
}

/// Of models by flags; those of other kinds are compared when the checkpoint is loaded.
void requireSameSizes(const TrainOptions& options, const std::filesystem::path& checkpoint) {
  if (options.llama || !options.named.empty() || !options.initFrom.empty()) return;
  const OrderedJson saved = configOf(checkpoint);
  const OrderedJson wanted = OrderedJson::parse(configText(modelOf(options), DType::Float32));
  if (!saved.is_object()) return;
  for (const auto& [member, flag] : kSizeFlags) {
    if (!saved.contains(member) || !wanted.contains(member)) continue;
    require(saved.at(member) == wanted.at(member), "--checkpoints ", options.checkpoints,
            " has a model of ", flag, " ", saved.at(member).dump(), ", not ", flag, " ",
            wanted.at(member).dump());
  }
}

}  // namespace

void checkFolders(const TrainOptions& options) {
  std::error_code unknown;
  require(options.exportTo.empty() || !std::filesystem::exists(options.exportTo, unknown),
          "--export ", options.exportTo, " is there already: choose another folder");
  if (options.checkpoints.empty()) return;
  if (options.resume) {
    if (const auto newest = latestCheckpoint(options.checkpoints))
      requireSameSizes(options, *newest);
    return;
  }
  const auto steps = checkpointSteps(options.checkpoints);
  require(steps.empty(), "--checkpoints ", options.checkpoints, " has a run up to step ",
          steps.empty() ? 0 : steps.back(),
          " already: give --resume to go on with it, or choose another folder");
}

}  // namespace tutti::parallel
