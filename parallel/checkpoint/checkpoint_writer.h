#pragma once

// Writing a checkpoint, by all ranks of a run into one folder that all of them see. Ranks talk to
// each other in between, by whatever the program has for that; one of them, here rank 0, commits:
//
//   rank 0                                            the others
//   CheckpointWriter writer(root, step);
//   barrier                                           barrier
//   writeShard(partialPath(root, step), rank, ...)    the same
//   gather descriptions                               send ShardDescription::serialize()
//   writer.commit({.shards = descriptions, ...});
//   barrier                                           barrier
//
// Whatever happens before that (a kill, a full disk) leaves the last complete checkpoint the
// latest, and what was begun is removed by the next CheckpointWriter.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/manifest.h"

namespace tutti::parallel {

/// A box of a global tensor that this rank holds and writes. `data` is contiguous and has the
/// extents of the box.
struct TensorBox {
  std::string name;  ///< of the global tensor
  Shape global;
  Box box;
  Tensor data;
};

/// Writes what this rank holds into `folder`, and says what that was. With no pieces there is no
/// file. A box that several ranks hold is written by one of them. Throws InvalidArgument for a
/// piece that cannot be, System when the disk refuses.
ShardDescription writeShard(const std::filesystem::path& folder, int rank,
                            std::span<const TensorBox> pieces);

/// The same for ranks that wait for each other: what writeShard() throws is in the description, so
/// that commit() names it.
ShardDescription tryWriteShard(const std::filesystem::path& folder, int rank,
                               std::span<const TensorBox> pieces);

struct CommitRequest {
  std::span<const ShardDescription> shards;  ///< of all ranks
  Metadata metadata;
  int keep = 0;  ///< so many of the newest checkpoints stay, this one included; 0: all
};

/// On one rank. While it is there nobody else can make one for the same root. It removes files of
/// checkpoints only: a folder that has anything else stays as it is.
class CheckpointWriter {
 public:
  /// Removes what incomplete checkpoints left, and makes the folder for a new one. Steps ascend:
  /// throws InvalidUsage when `root` has a checkpoint of this or a later step, another writer, or
  /// something else of the name that the new folder has.
  CheckpointWriter(const std::filesystem::path& root, int64_t step);
  ~CheckpointWriter();  ///< removes the folder when there was no commit()
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Makes the checkpoint complete, then removes older ones. Returns its folder. Throws
  /// InvalidArgument, and completes nothing, when the file of a rank is not here, when tensors of
  /// one name differ, overlap or have gaps; System when a rank could not write, or the disk
  /// refuses: checkpointSteps() says whether that was before or after it was complete.
  std::filesystem::path commit(const CommitRequest& request);

 private:
  void requireFiles(const Manifest& manifest) const;
  std::filesystem::path root_, partial_;
  int64_t step_;
  FolderLock lock_;
  bool committed_ = false;
};

}  // namespace tutti::parallel
