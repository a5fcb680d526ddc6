// Data: files are refused by name; samples depend on the seed and their number alone.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "parallel/data/loader.h"
#include "parallel/data/token_data.h"
#include "parallel/tokenizer/bpe_tokenizer.h"

namespace tutti::parallel {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    char path[] = "/tmp/tutti-loader-XXXXXX";
    close(mkstemp(path));
    path_ = path;
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string messageOf(const std::string& path, int64_t context) {
  try {
    readTextTokens(path, ByteTokenizer(), context);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
    return e.what();
  }
  return "";
}

std::vector<uint8_t> counting(size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 % 251);
  return bytes;
}

TEST(ReadText, SplitsOffTheLastTwentieth) {
  const TemporaryFile file(std::string(1000, 'x') + "yz");
  const TokenData data = readTextTokens(file.path(), ByteTokenizer(), 16);
  EXPECT_EQ(data.train.size(), 952);
  EXPECT_EQ(data.validation.size(), 50);
  int32_t last = 0;
  data.validation.read(49, 1, &last);
  EXPECT_EQ(last, 'z');
}

TEST(ReadText, RefusalsNameTheFile) {
  const TemporaryFile empty(""), tiny("short");
  EXPECT_NE(messageOf("/no/such/file", 8).find("/no/such/file"), std::string::npos);
  EXPECT_NE(messageOf("/tmp", 8).find("directory"), std::string::npos);
  EXPECT_NE(messageOf(empty.path(), 8).find(empty.path() + " is empty"), std::string::npos);
  EXPECT_NE(messageOf(tiny.path(), 8).find(tiny.path() + " has 5 bytes"), std::string::npos);
}

// Every rank reads the text: what can be read once, or never ends, is none.
TEST(ReadText, TakesRegularFilesOnly) {
  const std::string pipe = "/tmp/tutti-loader-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(messageOf(pipe, 8).find("the text " + pipe + " is a pipe: every rank reads"), 0u);
  std::remove(pipe.c_str());
  EXPECT_EQ(messageOf("/dev/zero", 8).find("the text /dev/zero is a device: every rank reads"), 0u);
}

// Zero bytes are in programs, archives and UTF-16, and in no text.
TEST(ReadText, NamesTheByteThatIsNoText) {
  const std::string text(200, 'x');
  const TemporaryFile zero(text + std::string(1, '\0') + text), latin1(text + "\xe9" + text);
  EXPECT_EQ(messageOf(zero.path(), 8),
            "the text " + zero.path() + ": byte 200 is 0: this is binary data, and no text");
  EXPECT_NO_THROW(readTextTokens(latin1.path(), ByteTokenizer(), 8));
  const BpeTokenizer tokenizer(parseTokenizer("", byteTokenizerText()));
  try {
    readTextTokens(latin1.path(), tokenizer, 8);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "the text " + latin1.path() + ": byte 200 is no UTF-8");
  }
}

TEST(ReadText, AnErrorWhileReadingNamesTheFile) {
  // Nothing is mapped where this file begins.
  EXPECT_EQ(messageOf("/proc/self/mem", 8),
            "the text /proc/self/mem cannot be read: Input/output error");
}

TEST(ReadText, TheLargestContextIsTooLargeAsAnyOther) {
  const TemporaryFile file(std::string(1000, 'x'));
  const std::string said = messageOf(file.path(), std::numeric_limits<int64_t>::max());
  EXPECT_NE(said.find("at least 9708812670373448219 are needed"), std::string::npos) << said;
}

TEST(ReadText, TheSmallestTextThatIsNamedIsEnough) {
  for (int64_t context : {1, 8, 100}) {
    const size_t least = static_cast<size_t>(std::max<int64_t>(40, context * 20 / 19 + 2));
    const TemporaryFile file(std::string(least, 'x'));
    const TokenData data = readTextTokens(file.path(), ByteTokenizer(), context);
    EXPECT_NO_THROW(Loader(data.train, context, 1, 0).next(0, {}));
  }
}

// The ranks of any job together see the micro-batches of one and the same list of samples.
TEST(Loader, OrderDoesNotDependOnTheNumberOfPieces) {
  const auto bytes = counting(5000);
  Loader whole(bytes, 16, 12, 7), pieces(bytes, 16, 12, 7);
  for (int64_t step : {0, 1, 30}) {
    const Batch batch = whole.next(step, {0, 1});
    const std::vector<int32_t> ids(batch.tokenIds.as<int32_t>(),
                                   batch.tokenIds.as<int32_t>() + 192);
    for (int count : {2, 4, 5, 12}) {
      std::vector<int32_t> joined;
      for (int index = 0; index < count; ++index) {
        const Batch part = pieces.next(step, {index, count});
        const auto* from = part.tokenIds.as<int32_t>();
        joined.insert(joined.end(), from, from + part.tokenIds.count());
      }
      EXPECT_EQ(joined, ids) << count << " pieces, step " << step;
    }
  }
}

TEST(Loader, RefusesMoreTokensThanCanBeCounted) {
  const auto bytes = counting(5000);
  EXPECT_THROW(Loader(bytes, 16, int64_t{1} << 60, 7), Error);
  EXPECT_EQ(Windows(bytes, std::numeric_limits<int64_t>::max()).count(), 1);
}

TEST(Loader, LabelsAreTheNextTokens) {
  const auto bytes = counting(777);
  Loader loader(bytes, 9, 3, 1);
  for (int64_t step = 0; step < 60; ++step) {
    const Batch batch = loader.next(step, {0, 1});
    for (int64_t row = 0; row < 3; ++row) {
      const size_t start = static_cast<size_t>(loader.sampleStart(step * 3 + row));
      for (size_t t = 0; t < 9; ++t) {
        const size_t at = static_cast<size_t>(row) * 9 + t;
        EXPECT_EQ(batch.tokenIds.as<int32_t>()[at], bytes.at(start + t));
        EXPECT_EQ(batch.labels.as<int32_t>()[at], bytes.at(start + t + 1));
      }
    }
  }
}

TEST(Loader, AnEpochIsEachWindowOnce) {
  const auto bytes = counting(1003);
  const Loader loader(bytes, 10, 4, 2);
  std::set<int64_t> offsets;
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> starts, remainders;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 99; ++i) {
      starts.insert(loader.sampleStart(epoch * 99 + i));
      remainders.insert(loader.sampleStart(epoch * 99 + i) % 10);
      order.push_back(loader.sampleStart(epoch * 99 + i) / 10);
    }
    EXPECT_EQ(starts.size(), 99u);
    EXPECT_EQ(remainders.size(), 1u);
    offsets.insert(*remainders.begin());
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);   // each epoch has an order of its own
  EXPECT_GE(offsets.size(), 2u);  // and, of ten, an offset
  EXPECT_NE(loader.sampleStart(0), Loader(bytes, 10, 4, 3).sampleStart(0));
}

TEST(Windows, CoverTheTextOnce) {
  const auto bytes = counting(25);
  Windows windows(bytes, 8);
  ASSERT_EQ(windows.count(), 3);
  const Batch batch = windows.read(0, 100);
  EXPECT_EQ(batch.tokenIds.shape, Shape({3, 8}));
  int counted = 0;
  for (int i = 0; i < 24; ++i) counted += batch.labels.as<int32_t>()[i] >= 0;
  EXPECT_EQ(counted, 24);
  const auto odd = counting(22);
  Windows shorter(odd, 8);
  const Batch last = shorter.read(2, 1);
  EXPECT_EQ(last.labels.as<int32_t>()[4], odd[21]);
  EXPECT_EQ(last.labels.as<int32_t>()[5], -1);
}

}  // namespace
}  // namespace tutti::parallel
