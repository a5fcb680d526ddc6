// Token files: what is written is read, as the loader reads it too; what has changed since, or
// could never be, is refused with the place in the file.

#include "parallel/data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <numeric>

#include "parallel/checkpoint/hash.h"
#include "parallel/data/loader.h"
#include "parallel/data/token_data.h"
#include "parallel/tensor/check.h"
#include "tests/support/address_space.h"
#include "tests/support/child_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using tests::Outcome;
using tests::outcomeOf;

std::vector<int32_t> idsBelow(int64_t vocabulary, size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 7919 % size_t(vocabulary));
  return ids;
}

class TokenFiles : public testing::Test {
 protected:
  void write(const std::vector<int32_t>& ids, int64_t vocabulary) {
    std::filesystem::remove(path_);
    TokenFileWriter writer(path_, vocabulary, "bytes");
    // In parts that do not end where blocks do.
    for (size_t at = 0; at < ids.size(); at += 1000)
      writer.add(std::span(ids).subspan(at, std::min<size_t>(1000, ids.size() - at)));
    EXPECT_EQ(writer.finish().count, std::ssize(ids));
  }
  static std::vector<int32_t> contents(const std::string& path) {
    const TokenFile file(path);
    std::vector<int32_t> ids(static_cast<size_t>(file.size()));
    file.read(0, file.size(), ids.data());
    return ids;
  }
  /// The file's bytes with others at `at`, and what reading it says then.
  Outcome changed(size_t at, const std::string& bytes) {
    std::string all = tests::contentsOf(path_);
    const std::string before = all;
    all.replace(at, bytes.size(), bytes);
    tests::setContents(path_, all);
    const Outcome outcome = outcomeOf([&] { contents(path_); });
    tests::setContents(path_, before);
    return outcome;
  }
  void expectRefused(size_t at, const std::string& bytes, const std::string& reason) {
    const Outcome outcome = changed(at, bytes);
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(outcome.text.find("the token file " + path_ + ": " + reason), 0u) << outcome.text;
  }

  tests::TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "a.tokens";
};

template <class T>
std::string bytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

TEST_F(TokenFiles, AFileIsTheseBytes) {
  write({1, 258, 65535}, 65536);
  const std::string data("\x01\0\x02\x01\xff\xff", 6), table = hash128(data.data(), data.size());
  std::string header = "TUTTITOK" + bytesOf<uint32_t>(1) + bytesOf<uint32_t>(2) +
                       bytesOf<uint64_t>(65536) + bytesOf<uint64_t>(3) + "bytes";
  header.resize(96, '\0');
  const std::string checked = header + table;
  EXPECT_EQ(tests::contentsOf(path_),
            header + hash128(checked.data(), checked.size()) + data + table);
  write({65536}, 65537);
  EXPECT_EQ(tests::contentsOf(path_).substr(128, 4), std::string("\0\0\x01\0", 4));
}

// A block is 2^19 ids of two bytes, 2^18 of four.
TEST_F(TokenFiles, ComeBack) {
  for (const auto& [vocabulary, block] :
       {std::pair<int64_t, size_t>{50257, 1 << 19}, {128256, 1 << 18}})
    for (const size_t count :
         {size_t{1}, size_t{999}, block - 1, block, block + 1, 3 * block + 7}) {
      const auto ids = idsBelow(vocabulary, count);
      write(ids, vocabulary);
      EXPECT_EQ(contents(path_), ids) << count << " below " << vocabulary;
      const TokenFile file(path_);
      EXPECT_EQ(file.facts().vocabulary, vocabulary);
      EXPECT_EQ(file.facts().tokenizer, "bytes");
      for (const size_t at : {size_t{0}, count / 2, count - 1}) {
        int32_t id = -1;
        file.read(static_cast<int64_t>(at), 1, &id);
        EXPECT_EQ(id, ids[at]);
      }
      file.verify();
    }
}

// The samples are those of the same tokens in memory, and depend on no layout.
TEST_F(TokenFiles, FeedTheLoader) {
  const auto ids = idsBelow(50257, 700'000);
  write(ids, 50257);
  const TokenData data = readTokenFile(path_, 64);
  ASSERT_EQ(data.train.size(), 665'000);
  ASSERT_EQ(data.validation.size(), 35'000);
  const std::vector<int32_t> train(ids.begin(), ids.begin() + 665'000);
  Loader memory(TokenView::owning(train), 64, 12, 5), file(data.train, 64, 12, 5);
  for (const int64_t step : {0, 1, 5000}) {
    const Batch whole = memory.next(step, {0, 1});
    for (const int count : {1, 3, 4}) {
      const int64_t part = whole.tokenIds.count() / count;
      for (int i = 0; i < count; ++i) {
        const Batch batch = file.next(step, {i, count});
        const auto same = [&](const Tensor& a, const Tensor& b) {
          return std::equal(b.as<int32_t>(), b.as<int32_t>() + part, a.as<int32_t>() + i * part);
        };
        EXPECT_TRUE(same(whole.tokenIds, batch.tokenIds)) << step << ", " << i << " of " << count;
        EXPECT_TRUE(same(whole.labels, batch.labels)) << step << ", " << i << " of " << count;
      }
    }
  }
  Windows windows(data.validation, 64);
  EXPECT_EQ(windows.read(1, 1).tokenIds.as<int32_t>()[3], ids[665'000 + 64 + 3]);
}

TEST_F(TokenFiles, WhatHasChangedIsRefusedWithItsPlace) {
  const size_t count = (1 << 19) + 100;
  write(idsBelow(50000, count), 50000);
  expectRefused(0, "X", "magic: this is no token file");
  expectRefused(8, bytesOf<uint32_t>(2), "version: 2 is not known, 1 is");
  expectRefused(12, bytesOf<uint32_t>(3), "bytes of an id: 3 is neither 2 nor 4");
  expectRefused(12, bytesOf<uint32_t>(4), "count: the file has 1048968 bytes, and 524388 ids of 4");
  expectRefused(16, bytesOf<uint64_t>(0), "vocabulary: 0 is not between 1 and 65536");
  expectRefused(16, bytesOf<uint64_t>(65537), "vocabulary: 65537 is not between");
  expectRefused(16, bytesOf<uint64_t>(50001), "checksum: bytes 0 to 96 or those from 1048904 on");
  expectRefused(24, bytesOf<uint64_t>(count + 1), "count: the file has 1048968 bytes, and 524389");
  for (const uint64_t much : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 62})
    expectRefused(24, bytesOf(much), "count: the file has 1048968 bytes, and ");
  expectRefused(32, "c", "checksum: bytes 0 to 96");
  expectRefused(64, "c", "checksum: bytes 0 to 96");
  expectRefused(96, "x", "checksum: bytes 0 to 96");
  expectRefused(128, "\x55", "bytes 128 to 1048704 have changed since they were written");
  expectRefused(1048703, "\x55", "bytes 128 to 1048704 have changed");
  expectRefused(1048704, "\x55", "bytes 1048704 to 1048904 have changed");
  expectRefused(1048904, "x", "checksum: bytes 0 to 96 or those from 1048904 on");
}

// Only what is read is looked at: a block that has changed harms nobody who does not use it.
TEST_F(TokenFiles, AreCheckedWhereTheyAreRead) {
  const auto ids = idsBelow(50000, (1 << 19) + 100);
  write(ids, 50000);
  std::string all = tests::contentsOf(path_);
  all[1048704] ^= 1;
  tests::setContents(path_, all);
  const TokenFile file(path_);
  int32_t id = 0;
  file.read(5, 1, &id);
  EXPECT_EQ(id, ids[5]);
  EXPECT_EQ(outcomeOf([&] { file.read(1 << 19, 1, &id); }).code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcomeOf([&] { file.verify(); }).code, ErrorCode::InvalidArgument);
}

/// A file whose checksums are right, whatever it says.
std::string fileOf(uint32_t idBytes, uint64_t vocabulary, const std::string& data) {
  std::string header = "TUTTITOK" + bytesOf<uint32_t>(1) + bytesOf(idBytes) + bytesOf(vocabulary) +
                       bytesOf<uint64_t>(data.size() / idBytes) + "bytes";
  header.resize(96, '\0');
  const std::string table = data.empty() ? "" : hash128(data.data(), data.size());
  const std::string checked = header + table;
  return header + hash128(checked.data(), checked.size()) + data + table;
}

TEST_F(TokenFiles, IdsThatAreNoneAreRefusedWithTheirPlace) {
  const auto said = [&](const std::string& file) {
    tests::setContents(path_, file);
    return outcomeOf([&] { contents(path_); }).text;
  };
  const std::string name = "the token file " + path_ + ": ";
  EXPECT_EQ(said(fileOf(2, 100, bytesOf<uint16_t>(99) + bytesOf<uint16_t>(100))),
            name + "byte 130: token 1 is 100, and the vocabulary has 100");
  EXPECT_EQ(said(fileOf(4, 100, bytesOf<uint32_t>(5) + bytesOf<uint32_t>(5) + bytesOf(~0U))),
            name + "byte 136: token 2 is 4294967295, and the vocabulary has 100");
  EXPECT_EQ(said(fileOf(2, 100, bytesOf<uint16_t>(99))), "no error");
  EXPECT_EQ(said(fileOf(2, 100, "")), name + "count: it has no tokens");
}

TEST_F(TokenFiles, WhatIsNotWholeIsRefused) {
  write(idsBelow(500, 1000), 500);
  const std::string all = tests::contentsOf(path_);
  for (const size_t bytes : {size_t{1}, size_t{127}, size_t{128}, all.size() - 1}) {
    tests::setContents(path_, all.substr(0, bytes));
    EXPECT_EQ(outcomeOf([&] { TokenFile file(path_); }).code, ErrorCode::InvalidArgument) << bytes;
  }
  tests::setContents(path_, all + "x");
  EXPECT_NE(outcomeOf([&] { TokenFile file(path_); }).text.find(": count: the file has"),
            std::string::npos);
  tests::setContents(path_, "");
  EXPECT_EQ(outcomeOf([&] { TokenFile file(path_); }).text,
            "the token file " + path_ + " is empty");
  EXPECT_NE(outcomeOf([&] { TokenFile file(folder_.path()); }).text.find("is a directory"),
            std::string::npos);
}

// A mapping of what is no longer there would end the process.
TEST_F(TokenFiles, OneThatBecomesShorterIsRefused) {
  write(idsBelow(500, 1'000'000), 500);
  const TokenFile file(path_);
  std::filesystem::resize_file(path_, 1000);
  int32_t id = 0;
  EXPECT_EQ(outcomeOf([&] { file.read(900'000, 1, &id); }).text,
            "the token file " + path_ + " has 1000 bytes, and had 2000192 when it was opened");
}

TEST_F(TokenFiles, AreThereWhenTheyAreComplete) {
  {
    TokenFileWriter writer(path_, 10, "bytes");
    writer.add(std::vector<int32_t>{1, 2});
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_EQ(outcomeOf([&] {
                writer.add(std::vector<int32_t>{3, 10});
              }).text,
              path_ + ": token 3: 10 is not in a vocabulary of 10");
    EXPECT_EQ(outcomeOf([&] { writer.add(std::vector<int32_t>{-1}); }).code,
              ErrorCode::InvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Neither at the start nor, when another was faster, at the end.
TEST_F(TokenFiles, AreNeverWrittenOver) {
  const std::vector<int32_t> one{1}, two{2};
  {
    TokenFileWriter slower(path_, 10, "bytes");
    slower.add(one);
    write(two, 10);
    const Outcome second = outcomeOf([&] { slower.finish(); });
    EXPECT_EQ(second.code, ErrorCode::InvalidUsage);
    EXPECT_EQ(second.text, path_ + " is there already");
  }
  EXPECT_EQ(outcomeOf([&] { TokenFileWriter third(path_, 10, "bytes"); }).text,
            path_ + " is there already");
  EXPECT_EQ(contents(path_), two);
  std::filesystem::remove(path_);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// A text that is larger than what is left.
TEST_F(TokenFiles, OfTextsWithoutMemoryAreSaidByName) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  tests::setContents(path_, "");
  std::filesystem::resize_file(path_, 200 << 20);
  EXPECT_EQ(tests::inChild([&] {
              if (!tests::leaveMemory(64 << 20)) return 2;
              const Outcome outcome = outcomeOf([&] { readTextTokens(path_, ByteTokenizer(), 8); });
              return outcome.code == ErrorCode::OutOfMemory &&
                             outcome.text == "the text " + path_ +
                                                 ": there is no memory for what its 209715200 "
                                                 "bytes hold"
                         ? 0
                         : 1;
            }),
            0);
}

TEST_F(TokenFiles, Fuzz) {
  write(idsBelow(500, 300), 500);
  const auto good = contents(path_);
  const std::string bytes = tests::contentsOf(path_);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  tests::Mutator mutator(tests::testSeed());
  int accepted = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const base::Bytes changed = mutator.mutate(base::Bytes(data, data + bytes.size()));
    tests::setContents(path_,
                       std::string(reinterpret_cast<const char*>(changed.data()), changed.size()));
    const Outcome outcome = outcomeOf([&] { EXPECT_EQ(contents(path_), good); });
    outcome.text == "no error" ? ++accepted : ++refused;
    if (outcome.text == "no error") continue;
    ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    ASSERT_EQ(outcome.text.find("the token file " + path_), 0u) << outcome.text;
  }
  EXPECT_GT(accepted, 100) << "no input is good: the test tests nothing";
  EXPECT_GT(refused, 1000) << "no input is bad: the test tests nothing";
  std::cout << accepted << " accepted, " << refused << " refused\n";
}

}  // namespace
}  // namespace tutti::parallel
