#include "parallel/checkpoint/checkpoint_writer.h"

#include <system_error>

#include "parallel/checkpoint/hash.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/names.h"
#include "parallel/checkpoint/safetensors.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;

/// Other programs find a whole tensor under its own name.
std::string entryName(const TensorBox& piece) {
  return piece.box == wholeOf(piece.global) ? piece.name : message(piece.name, describe(piece.box));
}

void requireValid(const TensorBox& piece) {
  const std::string name = message("piece of tensor ", inQuotes(piece.name));
  checkedBytes(name, piece.data.type, piece.global);
  require(isBoxOf(piece.box, piece.global), name, ": ", describe(piece.box), " is not inside ",
          piece.global);
  require(piece.data.shape == extentsOf(piece.box), name, ": ", describe(piece.box),
          " has other extents than ", piece.data);
}

/// A box without elements matters only where the tensor has none at all.
bool isWritten(const TensorBox& piece) {
  return piece.data.count() > 0 || piece.global.count() == 0;
}

bool isThere(const fs::path& path) {
  std::error_code unknown;
  return fs::symlink_status(path, unknown).type() != fs::file_type::not_found;
}

/// The last `keep` stay, and those into which somebody has put something else.
void removeOld(const fs::path& root, int keep) {
  const std::vector<int64_t> steps = checkpointSteps(root);
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    const fs::path complete = checkpointPath(root, steps[i]);
    // Under this name nobody takes it for complete when only some of its files are left.
    const fs::path partial = partialPath(root, steps[i]);
    if (!hasCheckpointFilesOnly(complete) || isThere(partial)) continue;
    renameNew(complete, partial);
    removeCheckpoint(partial);
  }
}

/// Before the folder of the new one is made.
const fs::path& prepared(const fs::path& root) {
  require(!root.empty(), "checkpoints need a folder");
  makeFolders(root);
  return root;
}

}  // namespace

ShardDescription writeShard(const fs::path& folder, int rank, std::span<const TensorBox> pieces) {
  std::vector<SafetensorsEntry> entries;
  for (const TensorBox& piece : pieces) {
    requireValid(piece);
    if (isWritten(piece)) entries.push_back({entryName(piece), piece.data.type, piece.data.shape});
  }
  if (entries.empty()) return {};
  ShardDescription shard{.file = shardName(rank)};
  SafetensorsWriter file(folder / shard.file, entries);
  for (const TensorBox& piece : pieces) {
    if (!isWritten(piece)) continue;
    const std::string entry = entryName(piece);
    file.write(entry, piece.data);
    const auto [found, isNew] =
        shard.tensors.emplace(piece.name, StoredTensor{piece.data.type, piece.global, {}});
    require(isNew || (found->second.type == piece.data.type && found->second.shape == piece.global),
            "pieces of tensor ", inQuotes(piece.name), " are of different tensors");
    found->second.boxes.push_back(
        {piece.box, shard.file, entry, hash128(piece.data.data, piece.data.bytes())});
  }
  file.finish();
  syncFolder(folder);
  shard.bytes = file.bytes();
  return shard;
}

ShardDescription tryWriteShard(const fs::path& folder, int rank,
                               std::span<const TensorBox> pieces) {
  try {
    return writeShard(folder, rank, pieces);
  } catch (const std::exception& error) {
    return {.error = message("rank ", rank, ": ", error.what())};
  }
}

CheckpointWriter::CheckpointWriter(const fs::path& root, int64_t step)
    : root_(prepared(root)), partial_(partialPath(root, step)), step_(step), lock_(root) {
  const std::vector<int64_t> steps = checkpointSteps(root_);
  if (!steps.empty() && steps.back() >= step)
    fail(ErrorCode::InvalidUsage, "a checkpoint of step ", step, " cannot follow that of step ",
         steps.back(), " in ", root_.string(),
         ": remove those that are later, or write into another folder");
  // One without a manifest is none of ours, and nothing that we may remove.
  const fs::path complete = checkpointPath(root_, step);
  if (isThere(complete))
    fail(ErrorCode::InvalidUsage, complete.string(), " is there, and is no checkpoint");
  for (const fs::path& left : partialCheckpoints(root_)) removeCheckpoint(left);
  if (isThere(partial_))
    fail(ErrorCode::InvalidUsage, partial_.string(),
         " has files that are none of a checkpoint: move them away");
  makeFolder(partial_);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  try {
    removeCheckpoint(partial_);
  } catch (const std::exception&) {  // the next one tries again
  }
}

fs::path CheckpointWriter::commit(const CommitRequest& request) {
  if (committed_) fail(ErrorCode::InvalidUsage, "step ", step_, " was committed already");
  require(request.keep >= 0, "cannot keep ", request.keep, " checkpoints");
  Manifest manifest{.step = step_,
                    .world = static_cast<int>(request.shards.size()),
                    .metadata = request.metadata};
  require(manifest.world > 0, "a checkpoint of no ranks");
  for (const ShardDescription& shard : request.shards) manifest.add(shard);
  manifest.requireWhole(partial_.string());
  requireFiles(manifest);
  const std::string text = manifest.text();
  require(text.size() <= kMostManifestBytes, "a manifest of ", text.size(),
          " bytes is longer than ", kMostManifestBytes);
  writeText(partial_ / kManifestName, text);
  syncFolder(partial_);
  const fs::path complete = checkpointPath(root_, step_);
  renameNew(partial_, complete);
  committed_ = true;
  if (request.keep > 0) removeOld(root_, request.keep);
  return complete;
}

/// Ranks that write to disks of their own would complete a checkpoint that is not all here.
void CheckpointWriter::requireFiles(const Manifest& manifest) const {
  for (const auto& [name, bytes] : manifest.files) {
    std::error_code why;
    const fs::path path = partial_ / name;
    const uint64_t found = fs::file_size(path, why);
    require(!why, path.string(), " is not here (", why.message(),
            "): do all ranks write into one folder?");
    require(found == bytes, path.string(), " has ", found, " bytes, and its rank wrote ", bytes);
  }
}

}  // namespace tutti::parallel
