// Data: files are refused by name; samples depend on the seed and their number alone.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
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
      const size_t start = static_cast<size_t>(loader.sample(step * 3 + row).start);
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
      starts.insert(loader.sample(epoch * 99 + i).start);
      remainders.insert(loader.sample(epoch * 99 + i).start % 10);
      order.push_back(loader.sample(epoch * 99 + i).start / 10);
    }
    EXPECT_EQ(starts.size(), 99u);
    EXPECT_EQ(remainders.size(), 1u);
    offsets.insert(*remainders.begin());
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);   // each epoch has an order of its own
  EXPECT_GE(offsets.size(), 2u);  // and, of ten, an offset
  EXPECT_NE(loader.sample(0).start, Loader(bytes, 10, 4, 3).sample(0).start);
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

std::vector<uint8_t> bytesOf(const std::string& text) { return {text.begin(), text.end()}; }

TEST(Documents, AreLinesWithTheirEnds) {
  const auto lines = [](const std::string& text, std::optional<uint8_t> promptEnd = {}) {
    return linesOf(bytesOf(text), promptEnd);
  };
  using Lines = std::vector<Document>;
  EXPECT_EQ(lines(""), Lines{});
  EXPECT_EQ(lines("ab\n\nc"), (Lines{{0, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(lines("\n"), (Lines{{0, 1}}));
  // Up to the first mark of its own line, with that.
  EXPECT_EQ(lines("q:a:b\nno\n:\nz:", ':'), (Lines{{0, 6, 2}, {6, 9}, {9, 11, 1}, {11, 13, 2}}));
  EXPECT_EQ(lines("ab\ncd", '\n'), (Lines{{0, 3, 3}, {3, 5}}));
}

/// What comes of a text's documents: for each window inputs, then labels, of which '.' does not
/// count; padding is '_'.
std::vector<std::string> windowsOf(const std::string& text, const std::vector<Document>& documents,
                                   int64_t context) {
  const auto tokens = bytesOf(text);
  Windows windows(tokens, Documents(documents, context));
  std::vector<std::string> all;
  int64_t counted = 0;
  for (int64_t w = 0; w < windows.count(); ++w) {
    const Batch batch = windows.read(w, 1);
    std::string inputs, labels;
    for (int64_t t = 0; t < context; ++t) {
      const int32_t id = batch.tokenIds.as<int32_t>()[t], label = batch.labels.as<int32_t>()[t];
      inputs += id == 0 ? '_' : static_cast<char>(id);
      labels += label < 0 ? '.' : static_cast<char>(label);
      counted += label >= 0;
    }
    all.push_back(inputs + " " + labels);
  }
  EXPECT_EQ(windows.countedTokens(), counted) << text;
  return all;
}

TEST(Documents, ArePaddedAndTheirPromptsDoNotCount) {
  using All = std::vector<std::string>;
  EXPECT_EQ(windowsOf("promptanswer", {{0, 12, 6}}, 8),
            (All{"promptan .....ans", "swe_____ wer....."}));
  // None goes on into the next, and what one token is has nothing to learn.
  EXPECT_EQ(windowsOf("abcdefg", {{0, 3}, {3, 4}, {4, 7}}, 2), (All{"ab bc", "ef fg"}));
  EXPECT_EQ(windowsOf("abcdefg", {{0, 2}, {3, 7}}, 3), (All{"a__ b..", "def efg"}));
  // The first token is no label, so a prompt of one changes nothing; one of all leaves none.
  EXPECT_EQ(windowsOf("abcd", {{0, 4, 0}}, 3), (All{"abc bcd"}));
  EXPECT_EQ(windowsOf("abcd", {{0, 4, 1}}, 3), (All{"abc bcd"}));
  EXPECT_EQ(windowsOf("abcd", {{0, 4, 3}}, 3), (All{"abc ..d"}));
  for (const int64_t prompt : {4, 5, 100})
    EXPECT_EQ(windowsOf("abcd", {{0, 4, prompt}}, 2), (All{"ab ..", "c_ .."}));
  EXPECT_EQ(windowsOf("abcdefg", {{0, 7, 5}}, 2), (All{"ab ..", "cd ..", "ef fg"}));
}

// Lines that are longer than what is read at once, and those of a part; ids that are no bytes.
TEST(Documents, AreOfAnyTokens) {
  std::vector<int32_t> ids(10000, 'x');
  ids[4095] = ids[8999] = '\n';
  ids[5000] = ids[5001] = ':';
  const TokenView text = TokenView::owning(ids);
  using Lines = std::vector<Document>;
  EXPECT_EQ(linesOf(text, ':'), (Lines{{0, 4096}, {4096, 9000, 905}, {9000, 10000}}));
  EXPECT_EQ(linesOf(text.part(4096, 9500), ':'), (Lines{{0, 4904, 905}, {4904, 5404}}));

  const TokenView large = TokenView::owning(std::vector<int32_t>{70000, 70001, 70002, 70003});
  Windows windows(large.part(1, 4), Documents({{0, 3, 2}}, 3));
  const Batch batch = windows.read(0, 1);
  const std::vector<int32_t> inputs{70001, 70002, 0}, labels{-1, 70003, -1};
  EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), batch.tokenIds.as<int32_t>()));
  EXPECT_TRUE(std::equal(labels.begin(), labels.end(), batch.labels.as<int32_t>()));
}

TEST(Documents, AreRefusedWhereTheyAreNot) {
  const auto refused = [](const std::vector<Document>& documents, int64_t context) {
    EXPECT_THROW(Documents(documents, context), Error);
  };
  refused({{0, 4}}, 0);
  refused({{0, 4}, {3, 5}}, 4);
  refused({{4, 3}}, 4);
  refused({{-1, 3}}, 4);
  refused({{0, 3, -1}}, 4);
  const auto bytes = counting(5);
  EXPECT_THROW(Windows(bytes, Documents({{0, 6}}, 4)), Error);
  EXPECT_THROW(Loader(bytes, Documents({{0, 6}}, 4), 2, 1), Error);
  EXPECT_THROW(Loader(bytes, Documents({{0, 5}}, 4), 0, 1), Error);
  EXPECT_THROW(Loader(bytes, Documents({{0, 1}, {2, 3}}, 4), 2, 1), Error);
}

// An epoch has each window of each document once; the count of a step is that of its labels.
TEST(Loader, DealsOutDocuments) {
  const auto bytes = counting(300);
  std::vector<Document> documents;
  for (int64_t i = 0, begin = 0; begin < 250; begin += 1 + i, ++i)
    documents.push_back({begin, begin + 1 + i, i / 2});
  const Documents all(documents, 5);
  Loader loader(bytes, all, 4, 2);
  ASSERT_EQ(loader.windows(), all.windows());
  std::vector<TokenWindow> seen, expected;
  for (int64_t i = 0; i < all.windows(); ++i) {
    seen.push_back(loader.sample(i));
    expected.push_back(all.window(i));
  }
  EXPECT_NE(seen, expected);
  EXPECT_TRUE(std::is_permutation(seen.begin(), seen.end(), expected.begin(), expected.end()));
  std::set<int64_t> counts;
  for (int64_t step = 0; step < 40; ++step) {
    int64_t counted = 0;
    for (int part = 0; part < 3; ++part) {
      const Batch batch = loader.next(step, {part, 3});
      const auto* const labels = batch.labels.as<int32_t>();
      for (int64_t i = 0; i < batch.labels.count(); ++i) counted += labels[i] >= 0;
    }
    EXPECT_EQ(loader.countedTokens(step), counted) << step;
    counts.insert(counted);
  }
  EXPECT_GT(counts.size(), 5u);
  EXPECT_EQ(Loader(bytes, 5, 4, 2).countedTokens(7), 20);
}

}  // namespace
}  // namespace tutti::parallel
