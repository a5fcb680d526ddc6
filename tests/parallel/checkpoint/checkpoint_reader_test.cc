// Reading checkpoints: no more than is needed, with few descriptors, everything against its
// checksum before it is given out, and with errors that name what is wrong.

#include "parallel/checkpoint/checkpoint_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <map>

#include "tests/parallel/checkpoint/checkpoint_parts.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

namespace fs = std::filesystem;
using tests::outcomeOf;

class CheckpointReaders : public testing::Test {
 protected:
  tests::TemporaryFolder root_;
};

TEST_F(CheckpointReaders, SayWhatIsNotAsExpected) {
  const std::vector<GlobalTensor> tensors{{"a", DType::Float32, {4, 3}}, {"b", DType::Int64, {}}};
  const fs::path folder = saveCheckpoint(root_.path(), 1, tensors, rowsOver(2, tensors));
  CheckpointReader reader(folder);
  std::array<double, 12> memory;
  const auto refusal = [&](const std::string& name, const Box& box, const Tensor& to) {
    return outcomeOf([&] { reader.read(name, box, to); }).text;
  };
  const auto float32 = [&](const Shape& shape) {
    return Tensor(memory.data(), DType::Float32, shape);
  };
  Tensor strided = float32({2, 3});
  strided.strides[0] = 4;
  const std::string here = folder.string() + ": ", a = here + "tensor \"a\": ";
  EXPECT_EQ(refusal("c", {}, float32({})), here + "there is no tensor \"c\"");
  EXPECT_EQ(refusal("a", {{0, 4}, {0, 3}}, Tensor(memory.data(), DType::Float64, {4, 3})),
            a + "dtype: it is float32, not float64");
  EXPECT_EQ(refusal("a", {{3, 5}, {0, 3}}, float32({2, 3})), a + "[3:5, 0:3] is not inside [4, 3]");
  EXPECT_EQ(refusal("a", {{3, 4}}, float32({1})), a + "[3:4] is not inside [4, 3]");
  EXPECT_EQ(refusal("a", {{2, 4}, {0, 3}}, float32({3, 2})),
            a + "[2:4, 0:3] cannot be read into float32 [3, 2]");
  EXPECT_EQ(refusal("a", {{2, 4}, {0, 3}}, strided),
            a + "[2:4, 0:3] cannot be read into float32 [2, 3], which is not contiguous");
  EXPECT_EQ(refusal("a", {{2, 4}, {0, 3}}, float32({2, 3})), "no error");

  EXPECT_EQ(reader.tensor("a").shape, Shape({4, 3}));
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b"}));
  const auto mismatch = [&](const std::vector<std::string>& names) {
    return outcomeOf([&] { reader.requireNames(names); }).text;
  };
  EXPECT_EQ(mismatch({"b", "a"}), "no error");
  EXPECT_EQ(mismatch({"a", "b", "c"}), here + "there is no tensor \"c\"");
  EXPECT_EQ(mismatch({"b"}), here + "nobody expects tensor \"a\"");
  EXPECT_EQ(mismatch({"x", "b", "y"}),
            here + "there is no tensor \"x\", \"y\"; nobody expects tensor \"a\"");
  std::vector<std::string> many{"a", "b"};
  for (char c = 'c'; c < 'z'; ++c) many.push_back(std::string(1, c));
  EXPECT_NE(mismatch(many).find("\"l\" and 13 more"), std::string::npos) << mismatch(many);
}

TEST_F(CheckpointReaders, ReadWhatTheyNeed) {
  constexpr int64_t kRows = 16, kColumns = 5000;
  constexpr uint64_t kRowBytes = kColumns * sizeof(float), kHalf = kRows / 2 * kRowBytes;
  const std::vector<GlobalTensor> tensors{{"w", DType::Float32, {kRows, kColumns}}};
  const fs::path folder = saveCheckpoint(root_.path(), 1, tensors, rowsOver(2, tensors));
  CheckpointReader reader(folder);
  uint64_t before = 0;
  const auto bytesFor = [&](const Box& box) {
    EXPECT_EQ(load(reader, tensors[0], box), elementsOf(tensors[0], box, 1)) << describe(box);
    const uint64_t bytes = reader.bytesRead() - before;
    before = reader.bytesRead();
    return bytes;
  };
  // What a rank wrote itself it reads once, and checks where it lands.
  EXPECT_EQ(bytesFor({{0, 8}, {0, kColumns}}), kHalf);
  // From now on that half is known to be right, and the other one is not read.
  EXPECT_EQ(bytesFor({{5, 6}, {0, kColumns}}), kRowBytes);
  EXPECT_EQ(bytesFor({{5, 7}, {0, kColumns}}), 2 * kRowBytes);
  EXPECT_EQ(bytesFor({{3, 5}, {1000, 4000}}), 2 * 3000 * sizeof(float));
  EXPECT_EQ(bytesFor({{10, 10}, {0, kColumns}}), 0u);
  // Of the other one all is checked first.
  EXPECT_EQ(bytesFor({{14, 16}, {0, kColumns}}), kHalf + 2 * kRowBytes);
  EXPECT_EQ(bytesFor({{14, 16}, {0, kColumns}}), 2 * kRowBytes);
  // Short runs are read a page at a time, and no page twice.
  EXPECT_LE(bytesFor({{0, 8}, {10, 20}}), 8u * 4096);
  reader.verify();
  EXPECT_EQ(reader.bytesRead(), before) << "all of it was checked already";
  CheckpointReader other(folder);
  other.verify();
  EXPECT_EQ(other.bytesRead(), 2 * kHalf);
}

TEST_F(CheckpointReaders, NeedFewDescriptors) {
  constexpr int kRanks = 60;
  const std::vector<GlobalTensor> tensors{{"w", DType::Int32, {kRanks, 2}}};
  const fs::path folder = saveCheckpoint(root_.path(), 1, tensors, rowsOver(kRanks, tensors));
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(tests::countDescriptors()) + 4;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto outcome = outcomeOf([&] { EXPECT_TRUE(isIntact(folder, tensors, 1)); });
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome.text, "no error");
}

TEST_F(CheckpointReaders, GiveNothingOutThatChanged) {
  const std::vector<GlobalTensor> tensors{{"a", DType::UInt8, {4000, 3}}, {"b", DType::UInt8, {9}}};
  const fs::path folder = saveCheckpoint(root_.path(), 1, tensors, rowsOver(1, tensors));
  const fs::path file = folder / shardName(0);
  std::string bytes = tests::contentsOf(file);
  bytes[bytes.size() - 100] ^= 1;  // in tensor a: b is the last nine
  tests::setContents(file, bytes);
  const std::string wrong =
      file.string() + ": tensor \"a\": xxh128: its data has changed, the checksum is ";
  // Also where the box that is read has nothing of the harm.
  for (const Box& box : {Box{{0, 1}, {0, 3}}, Box{{0, 4000}, {0, 3}}, Box{{3, 9}, {1, 2}}}) {
    CheckpointReader reader(folder);
    for (int twice = 0; twice < 2; ++twice)
      EXPECT_EQ(outcomeOf([&] { load(reader, tensors[0], box); }).text.find(wrong), 0u)
          << describe(box);
    EXPECT_EQ(load(reader, tensors[1], {{0, 9}}), elementsOf(tensors[1], {{0, 9}}, 1));
  }
  CheckpointReader reader(folder);
  EXPECT_EQ(outcomeOf([&] { reader.verify(); }).text.find(wrong), 0u);
}

TEST_F(CheckpointReaders, RefuseFilesThatAreNotTheManifests) {
  const std::vector<GlobalTensor> tensors{{"a", DType::Int16, {4, 3}}};
  const fs::path first = saveCheckpoint(root_.path(), 1, tensors, rowsOver(2, tensors));
  const fs::path file = first / shardName(0);
  const std::string good = tests::contentsOf(file);
  const auto refusal = [&](const std::function<void()>& harm) {
    harm();
    const auto outcome = outcomeOf([&] { CheckpointReader(first).verify(); });
    fs::remove_all(file);
    tests::setContents(file, good);
    return outcome.text;
  };
  const auto with = [&](const SafetensorsEntry& entry,
                        const std::map<std::string, std::string>& metadata = {}) {
    return refusal([&] {
      std::array<int16_t, 6> zeros{};
      fs::remove(file);
      SafetensorsWriter writer(file, {entry}, metadata);
      writer.write(entry.name, Tensor(zeros.data(), entry.type, entry.shape));
      writer.finish();
    });
  };
  const std::string name = "a[0:2, 0:3]", is = file.string() + ": tensor \"" + name + "\" is ";
  EXPECT_EQ(with({"a[0:2,_0:3]", DType::Int16, {2, 3}}),
            file.string() + ": there is no tensor \"" + name + "\"");
  EXPECT_EQ(with({name, DType::Float16, {2, 3}}),
            is + "float16 [2, 3], and the manifest says int16 [2, 3]");
  EXPECT_EQ(with({name, DType::Int16, {3, 2}}),
            is + "int16 [3, 2], and the manifest says int16 [2, 3]");
  EXPECT_EQ(with({name, DType::Int16, {2, 3}})
                .find(file.string() + ": tensor \"" + name + "\": xxh128: its data has changed"),
            0u);
  EXPECT_EQ(with({name, DType::Int16, {2, 3}}, {{"key", "text"}}),
            message(file.string(), " has 124 bytes, and the manifest says ", good.size()));
  EXPECT_EQ(refusal([&] { fs::remove(file); }),
            "cannot open " + file.string() + ": No such file or directory");
  EXPECT_EQ(refusal([&] {
              fs::remove(file);
              fs::create_directory(file);
            }),
            file.string() + " is no regular file");
  EXPECT_EQ(refusal([] {}), "no error");
  fs::remove(first / kManifestName);
  EXPECT_EQ(outcomeOf([&] { CheckpointReader reader(first); }).text,
            "cannot open " + (first / kManifestName).string() + ": No such file or directory");
}

}  // namespace
}  // namespace tutti::parallel
