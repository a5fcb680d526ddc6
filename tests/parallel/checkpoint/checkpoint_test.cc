// Checkpoints: what one set of ranks writes, any other reads to the bit, however either shares the
// tensors; a checkpoint is complete or not there; and what cannot be right is refused by name.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/parallel/checkpoint/checkpoint_parts.h"
#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using tests::Outcome;
using tests::outcomeOf;

const std::vector<GlobalTensor> kTensors{{"embedding.weight", DType::Float32, {11, 6}},
                                         {"norm", DType::BFloat16, {13}},
                                         {"loss scale", DType::Float64, {}},
                                         {"experts", DType::Int64, {3, 4, 5}},
                                         {"heads/\"q\"", DType::UInt8, {2, 3, 5, 4}},
                                         {"none", DType::Float32, {3, 0}},
                                         {"one", DType::Float8E4M3, {1, 1}}};

class Checkpoints : public testing::Test {
 protected:
  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  Partition someCuts(int world);
  Box someBox(const Shape& shape);
  Outcome saved(int64_t step, const std::vector<ShardDescription>& shards) {
    return outcomeOf([&] { CheckpointWriter(root_, step).commit({.shards = shards}); });
  }

  tests::TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "deep" / "checkpoints";
  std::mt19937_64 random_{tests::testSeed()};
};

/// Along the last dimension, the larger parts with the last ranks.
Partition columnsOver(int world) {
  Partition partition{"columns over " + std::to_string(world), world, {}};
  for (const GlobalTensor& tensor : kTensors) {
    auto& ranks = partition.boxes.emplace_back(world);
    for (int64_t rank = 0; rank < world; ++rank) {
      Box box = wholeOf(tensor.shape);
      const auto cut = [&](int64_t i) { return box.back().end * i * i / (world * world); };
      if (!box.empty()) box.back() = {cut(rank), cut(rank + 1)};
      if (!box.empty() || rank == 0) ranks[static_cast<size_t>(rank)].push_back(box);
    }
  }
  return partition;
}

/// Boxes cut in two anywhere, again and again, and dealt to any rank: some get several, some none,
/// and some boxes have no elements.
Partition Checkpoints::someCuts(int world) {
  Partition partition{"cuts over " + std::to_string(world), world, {}};
  for (const GlobalTensor& tensor : kTensors) {
    std::vector<Box> boxes{wholeOf(tensor.shape)};
    for (size_t cuts = below(8); cuts > 0 && tensor.shape.count() > 1; --cuts) {
      Box& first = boxes[below(boxes.size())];
      Box second = first;
      const size_t d = below(second.size());
      const int64_t at =
          second[d].begin + static_cast<int64_t>(below(static_cast<size_t>(second[d].count()) + 1));
      first[d].end = second[d].begin = at;
      boxes.push_back(second);
    }
    auto& ranks = partition.boxes.emplace_back(world);
    for (const Box& box : boxes) ranks[below(static_cast<size_t>(world))].push_back(box);
  }
  return partition;
}

Box Checkpoints::someBox(const Shape& shape) {
  Box box = wholeOf(shape);
  for (Range& range : box) {
    const auto places = static_cast<size_t>(range.end) + 1;
    const auto one = static_cast<int64_t>(below(places)),
               other = static_cast<int64_t>(below(places));
    range = {std::min(one, other), std::max(one, other)};
  }
  return box;
}

TEST_F(Checkpoints, OfEveryPartitionAreReadUnderEveryOther) {
  std::vector<Partition> partitions;
  for (const int world : {1, 2, 3, 4, 8}) partitions.push_back(rowsOver(world, kTensors));
  for (const int world : {2, 5}) partitions.push_back(columnsOver(world));
  for (const int world : {1, 3, 4, 6}) partitions.push_back(someCuts(world));
  int64_t step = 0;
  uint64_t boxes = 0;
  for (const Partition& writers : partitions) {
    const fs::path folder = saveCheckpoint(root_, ++step, kTensors, writers);
    EXPECT_TRUE(isIntact(folder, kTensors, step));
    for (const Partition& readers : partitions)
      for (int rank = 0; rank < readers.world; ++rank) {
        CheckpointReader reader(folder);
        EXPECT_EQ(reader.world(), writers.world);
        for (size_t i = 0; i < kTensors.size(); ++i)
          for (const Box& box : readers.boxes[i][static_cast<size_t>(rank)]) {
            ASSERT_EQ(load(reader, kTensors[i], box), elementsOf(kTensors[i], box, step))
                << kTensors[i].name << describe(box) << " of " << writers.name << " by "
                << readers.name;
            ++boxes;
          }
      }
    CheckpointReader reader(folder);
    for (int i = 0; i < 300; ++i) {
      const GlobalTensor& tensor = kTensors[below(kTensors.size())];
      const Box box = someBox(tensor.shape);
      ASSERT_EQ(load(reader, tensor, box), elementsOf(tensor, box, step))
          << tensor.name << describe(box) << " of " << writers.name;
    }
  }
  EXPECT_GT(boxes, 2000u);
}

TEST_F(Checkpoints, AreWrittenByProcessesAtOnce) {
  const Partition partition = someCuts(4);
  CheckpointWriter writer(root_, 9);
  tests::ChildProcesses ranks;
  for (int rank = 0; rank < partition.world; ++rank)
    ranks.start([&, rank] {
      const auto shard = writeRank(partialPath(root_, 9), rank, kTensors, partition, 9);
      tests::setContents(folder_.path() / std::to_string(rank), shard.serialize());
      return 0;
    });
  std::vector<ShardDescription> shards;
  for (int rank = 0; rank < partition.world; ++rank) {
    ASSERT_EQ(ranks.wait(rank, tests::kPatience), 0);
    const fs::path description = folder_.path() / std::to_string(rank);
    shards.push_back(ShardDescription::parse(tests::contentsOf(description)));
  }
  EXPECT_TRUE(isIntact(writer.commit({.shards = shards}), kTensors, 9));
}

TEST_F(Checkpoints, AreTheSameFilesWheneverTheyAreWritten) {
  const Metadata metadata{{"step", int64_t{7}}};
  const fs::path first = saveCheckpoint(root_, 1, kTensors, rowsOver(3, kTensors), 0, metadata);
  const fs::path other = folder_.path() / "other";
  const fs::path second = saveCheckpoint(other, 1, kTensors, rowsOver(3, kTensors), 0, metadata);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(first)) {
    files.push_back(entry.path().filename());
    EXPECT_EQ(tests::contentsOf(entry.path()), tests::contentsOf(second / files.back()));
  }
  std::ranges::sort(files);
  EXPECT_EQ(files, (std::vector<std::string>{"manifest.json", "rank-00000.safetensors",
                                             "rank-00001.safetensors", "rank-00002.safetensors"}));
  // A tensor that is whole has its own name there.
  SafetensorsReader last(first / files[3]);
  EXPECT_EQ(last.entry("loss scale").shape, Shape({}));
  EXPECT_EQ(last.entry("norm[8:13]").shape, Shape({5}));
}

TEST_F(Checkpoints, HaveTheMetadataOfTheirProgram) {
  const Metadata metadata{{"smallest", std::numeric_limits<int64_t>::min()},
                          {"largest", std::numeric_limits<int64_t>::max()},
                          {"tenth", 0.1},
                          {"whole", 3.0},
                          {"minus zero", -0.0},
                          {"tiny", 5e-324},
                          {"huge", 1.7976931348623157e308},
                          {"random state", "\x01 \"quoted\" \xc3\xa9\n"},
                          {"", ""}};
  CheckpointReader reader(saveCheckpoint(root_, 5, {}, {"nothing", 2, {}}, 0, metadata));
  EXPECT_EQ(reader.metadata(), metadata);
  EXPECT_TRUE(std::signbit(std::get<double>(reader.metadata().at("minus zero"))));
  EXPECT_EQ(reader.step(), 5);
  EXPECT_EQ(reader.world(), 2);
  EXPECT_TRUE(reader.names().empty());
  for (const MetadataValue& bad :
       {MetadataValue(std::nan("")), MetadataValue(std::numeric_limits<double>::infinity()),
        MetadataValue("\xff")})
    EXPECT_EQ(outcomeOf([&] {
                saveCheckpoint(root_, 6, {}, {"nothing", 1, {}}, 0, {{"bad", bad}});
              }).code,
              ErrorCode::InvalidArgument);
  EXPECT_EQ(checkpointSteps(root_), std::vector<int64_t>{5});
}

/// Checkpoints of one small tensor, written by two ranks.
class SmallCheckpoints : public Checkpoints {
 protected:
  fs::path save(int64_t step, int keep = 0) {
    return saveCheckpoint(root_, step, tensors_, rowsOver(2, tensors_), keep);
  }
  std::vector<std::string> found() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  const std::vector<GlobalTensor> tensors_{{"w", DType::Float32, {4, 3}}};
};

TEST_F(SmallCheckpoints, AreListedWhenTheyAreComplete) {
  EXPECT_FALSE(latestCheckpoint(root_).has_value());
  save(3);
  save(1'000'000);
  EXPECT_EQ(found(), (std::vector<std::string>{"step-000003", "step-1000000"}));
  fs::create_directories(root_ / "step-2000000");  // no manifest
  fs::create_directories(root_ / "step-2000001.partial");
  for (const char* other : {"step-4", "step-0000004", "step--00004", "step-00000x", "Step-000004",
                            "step-000004.old", "step-99999999999999999999"}) {
    fs::create_directories(root_ / other);
    tests::setContents(root_ / other / kManifestName, "{}");
  }
  EXPECT_EQ(checkpointSteps(root_), (std::vector<int64_t>{3, 1'000'000}));
  EXPECT_EQ(latestCheckpoint(root_), root_ / "step-1000000");
  EXPECT_EQ(outcomeOf([&] { save(2'000'000); }).text,
            (root_ / "step-2000000").string() + " is there, and is no checkpoint");
  const fs::path file = folder_.path() / "file";
  tests::setContents(file, "");
  EXPECT_EQ(outcomeOf([&] { checkpointSteps(file); }).text,
            "cannot read " + file.string() + ": Not a directory");
  EXPECT_EQ(outcomeOf([&] { checkpointPath(root_, -1); }).code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcomeOf([&] { shardName(-1); }).code, ErrorCode::InvalidArgument);
}

TEST_F(SmallCheckpoints, OfWhichSoManyAreKept) {
  for (int64_t step = 1; step <= 5; ++step) save(step);
  save(6, 3);
  EXPECT_EQ(found(), (std::vector<std::string>{"step-000004", "step-000005", "step-000006"}));
  save(7, 1);
  EXPECT_EQ(found(), std::vector<std::string>{"step-000007"});
  EXPECT_TRUE(isIntact(root_ / "step-000007", tensors_, 7));
}

TEST_F(SmallCheckpoints, LeaveNothingBehindWhenTheyAreNotCommitted) {
  save(1);
  {
    CheckpointWriter writer(root_, 2);
    writeRank(partialPath(root_, 2), 0, tensors_, rowsOver(1, tensors_), 2);
    EXPECT_EQ(found(), (std::vector<std::string>{"step-000001", "step-000002.partial"}));
  }
  EXPECT_EQ(found(), std::vector<std::string>{"step-000001"});
  // What a killed writer leaves goes with the next one, whatever step it was.
  for (const int64_t step : {1, 2, 900}) {
    fs::create_directories(partialPath(root_, step));
    tests::setContents(partialPath(root_, step) / shardName(0), "half");
  }
  save(2);
  EXPECT_EQ(found(), (std::vector<std::string>{"step-000001", "step-000002"}));
}

TEST_F(SmallCheckpoints, HaveOneWriterAtATimeAndAscend) {
  {
    CheckpointWriter writer(root_, 4);
    const Outcome other = outcomeOf([&] { CheckpointWriter(root_, 5); });
    EXPECT_EQ(other.code, ErrorCode::InvalidUsage);
    EXPECT_EQ(other.text, "somebody else is writing into " + root_.string());
  }
  save(4);
  for (const int64_t step : {3, 4}) {
    const Outcome outcome = outcomeOf([&] { CheckpointWriter(root_, step); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage);
    EXPECT_NE(outcome.text.find("cannot follow that of step 4 in " + root_.string()),
              std::string::npos)
        << outcome.text;
  }
  EXPECT_TRUE(isIntact(root_ / "step-000004", tensors_, 4));
  CheckpointWriter writer(root_, 5);
  const std::vector<ShardDescription> shards{
      writeRank(partialPath(root_, 5), 0, tensors_, rowsOver(1, tensors_), 5)};
  writer.commit({.shards = shards});
  EXPECT_EQ(outcomeOf([&] { writer.commit({.shards = shards}); }).text,
            "step 5 was committed already");
  EXPECT_EQ(outcomeOf([] { CheckpointWriter("", 1); }).text, "checkpoints need a folder");
}

TEST_F(SmallCheckpoints, ThatAreNotWholeAreNotCommitted) {
  save(1);
  const auto refusal = [&](const std::function<void(std::vector<ShardDescription>&)>& harm) {
    const Outcome outcome = outcomeOf([&] {
      CheckpointWriter writer(root_, 2);
      std::vector<ShardDescription> shards;
      for (int rank = 0; rank < 2; ++rank)
        shards.push_back(
            writeRank(partialPath(root_, 2), rank, tensors_, rowsOver(2, tensors_), 2));
      harm(shards);
      writer.commit({.shards = shards});
    });
    EXPECT_EQ(latestCheckpoint(root_), checkpointPath(root_, outcome.text == "no error" ? 2 : 1));
    EXPECT_TRUE(partialCheckpoints(root_).empty());
    return outcome.text;
  };
  const std::string partial = partialPath(root_, 2);
  const std::string second = partialPath(root_, 2) / shardName(1);
  const auto tensor = [](ShardDescription& shard) -> StoredTensor& {
    return shard.tensors.at("w");
  };
  using Shards = std::vector<ShardDescription>;
  EXPECT_EQ(refusal([](Shards& shards) { shards.clear(); }), "a checkpoint of no ranks");
  EXPECT_EQ(refusal([](Shards& shards) { shards.pop_back(); }),
            partial + ": tensor \"w\": boxes: [2:3, 0:1] is in none");
  EXPECT_EQ(refusal([&](Shards& shards) { tensor(shards[1]).boxes[0].box[0].begin = 1; }),
            partial + ": tensor \"w\": boxes: [1:2, 0:1] is in [0:2, 0:3] and in [1:4, 0:3]");
  EXPECT_EQ(refusal([&](Shards& shards) {
              tensor(shards[1]).shape = {5, 3};
            }),
            "tensor \"w\" is float32 [5, 3] in rank-00001.safetensors, and float32 [4, 3] in the "
            "file of another rank");
  EXPECT_EQ(refusal([&](Shards& shards) { tensor(shards[1]).type = DType::Int32; }),
            "tensor \"w\" is int32 [4, 3] in rank-00001.safetensors, and float32 [4, 3] in the "
            "file of another rank");
  EXPECT_EQ(refusal([](Shards& shards) { shards[1].file = shards[0].file; }),
            "two ranks wrote rank-00000.safetensors");
  EXPECT_EQ(refusal([&](Shards& shards) { tensor(shards[1]).boxes[0].file = "elsewhere"; }),
            partial + ": tensor \"w\": file: \"elsewhere\" is not among the files");
  EXPECT_EQ(
      refusal([&](Shards&) { fs::remove(second); }),
      second + " is not here (No such file or directory): do all ranks write into one folder?");
  EXPECT_EQ(refusal([&](Shards& shards) { fs::resize_file(second, shards[1].bytes - 1); }),
            message(second, " has 103 bytes, and its rank wrote 104"));
  EXPECT_EQ(refusal([&](Shards& shards) {
              int8_t value = 1;
              const TensorBox piece{"x", {1}, {{0, 1}}, Tensor(&value, DType::Int8, {1})};
              shards[1] = tryWriteShard(root_ / "nowhere", 1, std::array{piece});
            }),
            "a rank could not write its part: rank 1: cannot create " +
                (root_ / "nowhere" / shardName(1)).string() + ": No such file or directory");
  EXPECT_EQ(refusal([](Shards&) {}), "no error");
}

TEST_F(SmallCheckpoints, RefusePiecesThatCannotBe) {
  std::array<float, 6> values{};
  const auto refusal = [&](TensorBox piece) {
    fs::remove(folder_.path() / shardName(0));
    return outcomeOf([&] { writeShard(folder_.path(), 0, std::array{piece}); }).text;
  };
  const Tensor data(values.data(), DType::Float32, {2, 3});
  Tensor strided = data;
  strided.strides[0] = 4;
  const std::string piece = "piece of tensor \"w\": ";
  EXPECT_EQ(refusal({"w", {4, 3}, {{1, 3}, {0, 3}}, data}), "no error");
  EXPECT_EQ(refusal({"w", {4, 3}, {{3, 5}, {0, 3}}, data}),
            piece + "[3:5, 0:3] is not inside [4, 3]");
  EXPECT_EQ(refusal({"w", {4, 3}, {{1, 3}}, data}), piece + "[1:3] is not inside [4, 3]");
  EXPECT_EQ(refusal({"w", {4, 3}, {{1, 4}, {0, 2}}, data}),
            piece + "[1:4, 0:2] has other extents than float32 [2, 3]");
  EXPECT_EQ(refusal({"w", {int64_t{1} << 40, 1 << 30}, {{0, 2}, {0, 3}}, data}),
            "piece of tensor \"w\": [1099511627776, 1073741824] is too large");
  EXPECT_NE(refusal({"w", {4, 3}, {{1, 3}, {0, 3}}, strided}).find("is not contiguous"),
            std::string::npos);
  // Two pieces of one tensor that say different things of it, or the same twice.
  const TensorBox first{"w", {4, 3}, {{0, 2}, {0, 3}}, data},
      larger{"w", {5, 3}, {{2, 4}, {0, 3}}, data};
  const auto pair = [&](const TensorBox& second) {
    fs::remove(folder_.path() / shardName(0));
    return outcomeOf([&] { writeShard(folder_.path(), 0, std::array{first, second}); }).text;
  };
  EXPECT_EQ(pair(larger), "pieces of tensor \"w\" are of different tensors");
  EXPECT_EQ(pair(first),
            (folder_.path() / shardName(0)).string() + ": tensor \"w[0:2, 0:3]\" is there twice");
  // Nothing to write, no file.
  EXPECT_EQ(writeShard(folder_.path(), 7, {}), ShardDescription{});
  EXPECT_FALSE(fs::exists(folder_.path() / shardName(7)));
}

}  // namespace
}  // namespace tutti::parallel
