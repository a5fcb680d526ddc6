#pragma once

// Global tensors whose elements are known, how ranks share them, and checkpoints of that.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/checkpoint_writer.h"
#include "parallel/checkpoint/names.h"

namespace tutti::parallel {

struct GlobalTensor {
  std::string name;
  DType type;
  Shape shape;
};

using Bytes = std::vector<std::byte>;

/// The elements of a box. Every byte follows from the tensor's name, its place there and `version`.
inline Bytes elementsOf(const GlobalTensor& tensor, const Box& box, int64_t version) {
  const size_t elementBytes = sizeOf(tensor.type);
  const size_t seed = std::hash<std::string>()(tensor.name) + static_cast<size_t>(version) * 40503;
  Bytes bytes;
  for (int64_t flat = 0; flat < tensor.shape.count(); ++flat) {
    bool inside = true;
    int64_t rest = flat;
    for (int d = tensor.shape.rank() - 1; d >= 0; rest /= tensor.shape[d], --d) {
      const Range& range = box[static_cast<size_t>(d)];
      inside =
          inside && rest % tensor.shape[d] >= range.begin && rest % tensor.shape[d] < range.end;
    }
    for (size_t b = 0; inside && b < elementBytes; ++b) {
      const size_t place = static_cast<size_t>(flat) * elementBytes + b;
      bytes.push_back(static_cast<std::byte>((seed + place) * 0x9E3779B97F4A7C15U >> 56));
    }
  }
  return bytes;
}

/// Which boxes of which tensor each rank writes: boxes[tensor][rank].
struct Partition {
  std::string name;
  int world = 1;
  std::vector<std::vector<std::vector<Box>>> boxes;
};

/// Each tensor cut along its first dimension as evenly as can be; the last rank has the scalars.
inline Partition rowsOver(int world, const std::vector<GlobalTensor>& tensors) {
  Partition partition{"rows over " + std::to_string(world), world, {}};
  for (const GlobalTensor& tensor : tensors) {
    auto& ranks = partition.boxes.emplace_back(world);
    for (int64_t rank = 0; rank < world; ++rank) {
      Box box = wholeOf(tensor.shape);
      if (!box.empty()) box[0] = {box[0].end * rank / world, box[0].end * (rank + 1) / world};
      if (!box.empty() || rank == world - 1) ranks[static_cast<size_t>(rank)].push_back(box);
    }
  }
  return partition;
}

inline ShardDescription writeRank(const std::filesystem::path& folder, int rank,
                                  const std::vector<GlobalTensor>& tensors,
                                  const Partition& partition, int64_t version) {
  std::vector<Bytes> memory;
  std::vector<TensorBox> pieces;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (const Box& box : partition.boxes[i][static_cast<size_t>(rank)]) {
      memory.push_back(elementsOf(tensors[i], box, version));
      pieces.push_back({tensors[i].name, tensors[i].shape, box,
                        Tensor(memory.back().data(), tensors[i].type, extentsOf(box))});
    }
  return writeShard(folder, rank, pieces);
}

/// Writes the elements of version `step`, one rank after the other, and returns the folder.
inline std::filesystem::path saveCheckpoint(const std::filesystem::path& root, int64_t step,
                                            const std::vector<GlobalTensor>& tensors,
                                            const Partition& partition, int keep = 0,
                                            const Metadata& metadata = {}) {
  CheckpointWriter writer(root, step);
  std::vector<ShardDescription> shards;
  for (int rank = 0; rank < partition.world; ++rank) {
    const ShardDescription shard =
        writeRank(partialPath(root, step), rank, tensors, partition, step);
    shards.push_back(ShardDescription::parse(shard.serialize()));
  }
  return writer.commit({.shards = shards, .metadata = metadata, .keep = keep});
}

inline Bytes load(CheckpointReader& reader, const GlobalTensor& tensor, const Box& box) {
  Bytes bytes(byteCount(tensor.type, extentsOf(box)));
  reader.read(tensor.name, box, Tensor(bytes.data(), tensor.type, extentsOf(box)));
  return bytes;
}

/// Whether all tensors are there with the elements of version `step`. Throws what reading throws.
inline bool isIntact(const std::filesystem::path& folder, const std::vector<GlobalTensor>& tensors,
                     int64_t step) {
  CheckpointReader reader(folder);
  reader.verify();
  bool equal = reader.step() == step && reader.names().size() == tensors.size();
  for (const GlobalTensor& tensor : tensors) {
    const Box whole = wholeOf(tensor.shape);
    equal = equal && load(reader, tensor, whole) == elementsOf(tensor, whole, step);
  }
  return equal;
}

}  // namespace tutti::parallel
