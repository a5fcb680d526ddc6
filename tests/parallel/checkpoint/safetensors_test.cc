// The safetensors format: what is written is what others read, to the byte; of what is read
// everything that is not exactly what its header says is refused, with the file, the tensor and the
// member named.

#include "parallel/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using tests::Outcome;
using tests::outcomeOf;

std::string lengthBytes(uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

std::string fileOf(const std::string& header, size_t dataBytes) {
  return lengthBytes(header.size()) + header + std::string(dataBytes, 'd');
}

class Safetensors : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& contents) {
    tests::setContents(path_, contents);
    return path_;
  }
  /// How opening a file of these bytes, and reading all of its tensors, ends.
  Outcome opened(const std::string& contents) {
    const auto path = file(contents);
    return outcomeOf([&] { readAll(path); });
  }
  void readAll(const std::filesystem::path& path) {
    SafetensorsReader reader(path);
    std::vector<char> data;
    for (const SafetensorsEntry& entry : reader.entries()) {
      data.resize(entry.end - entry.begin);
      reader.read(entry.name, Tensor(data.data(), entry.type, entry.shape));
    }
  }
  /// The file is refused, and the message goes on like this behind its name.
  void expectRefused(const std::string& contents, const std::string& reason) {
    const Outcome outcome = opened(contents);
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    EXPECT_EQ(outcome.text.find(path_.string() + reason), 0u)
        << outcome.text << "\nis not: " << reason;
  }

  tests::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "file.safetensors";
};

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

TEST_F(Safetensors, AFileIsTheseBytes) {
  const std::array<float, 2> weights{1.0F, -2.5F};
  const int64_t step = 258;
  const std::array<uint8_t, 3> flags{7, 8, 9};
  const Tensor weight(const_cast<float*>(weights.data()), DType::Float32, {1, 2});
  const Tensor count(const_cast<int64_t*>(&step), DType::Int64, {});
  const Tensor flag(const_cast<uint8_t*>(flags.data()), DType::UInt8, {3});
  // Larger elements first; the header has spaces up to a multiple of 8.
  std::string header = R"({"__metadata__":{"made by":"a \"test\""},)"
                       R"("step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                       R"("layer.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                       R"("flags":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string expected = lengthBytes(header.size()) + header +
                               std::string("\x02\x01\0\0\0\0\0\0", 8) +
                               std::string("\0\0\x80\x3f\0\0\x20\xc0", 8) + "\x07\x08\x09";
  std::vector<SafetensorsEntry> entries{{"flags", DType::UInt8, {3}},
                                        {"layer.weight", DType::Float32, {1, 2}},
                                        {"step", DType::Int64, {}}};
  for (int order = 0; order < 6; ++order) {
    const auto path = folder_.path() / std::to_string(order);
    SafetensorsWriter writer(path, entries, {{"made by", "a \"test\""}});
    for (const SafetensorsEntry& entry : entries)
      writer.write(entry.name, entry.name == "step"    ? count
                               : entry.name == "flags" ? flag
                                                       : weight);
    writer.finish();
    EXPECT_EQ(tests::contentsOf(path), expected) << order;
    EXPECT_EQ(writer.bytes(), expected.size());
    std::next_permutation(entries.begin(), entries.end(),
                          [](const auto& a, const auto& b) { return a.name < b.name; });
  }
}

TEST_F(Safetensors, EveryTypeComesBack) {
  std::vector<std::vector<char>> data;
  std::vector<SafetensorsEntry> entries;
  for (int type = 0; type < kDataTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    EXPECT_EQ(parseSafetensorsType(safetensorsName(dtype)), dtype);
    entries.push_back({toString(dtype), dtype, {3, 1, 2, 1}});
    data.emplace_back(6 * sizeOf(dtype));
    std::iota(data.back().begin(), data.back().end(), static_cast<char>(type * 5));
  }
  SafetensorsWriter writer(path_, entries);
  for (size_t i = 0; i < entries.size(); ++i)
    writer.write(entries[i].name, Tensor(data[i].data(), entries[i].type, entries[i].shape));
  writer.finish();
  SafetensorsReader reader(path_);
  ASSERT_EQ(reader.entries().size(), entries.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry& entry = reader.entry(entries[i].name);
    EXPECT_EQ(entry.begin % sizeOf(entry.type), 0u) << "not aligned";
    std::vector<char> back(data[i].size());
    reader.read(entry.name, Tensor(back.data(), entry.type, entry.shape));
    EXPECT_EQ(back, data[i]) << entry.name;
    bytes += back.size();
  }
  EXPECT_EQ(reader.bytesRead(), bytes);
}

TEST_F(Safetensors, WhatOthersWriteIsRead) {
  // The order of members and of data is free, and so is space; a file may have no tensors.
  EXPECT_EQ(opened(fileOf("{}", 0)).text, "no error");
  EXPECT_EQ(opened(fileOf(kGood + "  \n", 24)).text, "no error");
  EXPECT_EQ(opened(fileOf(R"({"b":{"data_offsets":[4,6],"shape":[2],"dtype":"BOOL"},
      "empty":{"dtype":"F64","shape":[3,0],"data_offsets":[4,4]},
      "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}})",
                          6))
                .text,
            "no error");
  SafetensorsReader reader(path_);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.entries().front().name, "a");
  EXPECT_EQ(reader.entry("b").type, DType::UInt8);
  EXPECT_EQ(reader.entry("empty").shape, Shape({3, 0}));
  EXPECT_EQ(outcomeOf([&] { reader.entry("c"); }).text,
            path_.string() + ": there is no tensor \"c\"");
}

TEST_F(Safetensors, AHostileHeaderIsRefusedByName) {
  struct Case {
    std::string header, reason;
    size_t dataBytes = 24;
  };
  const auto with = [](const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const auto shape = [&](const std::string& text) { return with(R"("F32")", text, "[0,24]"); };
  const auto offsets = [&](const std::string& text) { return with(R"("F32")", "[2,3]", text); };
  const auto pair = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[16],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[8],"data_offsets":)" + second + "}}";
  };
  const std::string a = ": tensor \"a\": ", noJson = ": header: this is no JSON, at byte ";
  const Case cases[] = {
      {"[]", ": header: it does not begin with {"},
      {" " + kGood, ": header: it does not begin with {"},
      {"\xef\xbb\xbf" + kGood, ": header: it does not begin with {"},
      {"{", noJson},
      {kGood + "x", noJson + "58"},
      {kGood + kGood, noJson + "58"},
      {kGood + std::string(1, '\0'), noJson + "57"},
      {kGood + std::string("\0x", 2), noJson + "57"},
      {"{\"\xff\":0}", noJson},
      {R"({"a":0,})", noJson},
      {"{/**/}", noJson},
      {shape("[1e999]"), noJson},
      {shape("[NaN]"), noJson},
      {"{\"a\":{},\"a\":{}}", ": header: \"a\" is there twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})",
       ": header: \"dtype\" is there twice"},
      {"{\"\\u0061\":{},\"a\":{}}", ": header: \"a\" is there twice"},
      {R"({"__metadata__":{"x":"1","x":"2"}})", ": header: \"x\" is there twice"},
      {"{\"a\":" + std::string(1'000'000, '['), ": header: more than 8 levels of nesting"},
      {shape("[[[[[[[[]]]]]]]]"), ": header: more than 8 levels of nesting"},
      {R"({"a":0})", a.substr(0, a.size() - 2) + ": this is no object"},
      {R"({"a":[]})", a + "this is no object"},
      {R"({"a":{"shape":[],"data_offsets":[0,4]}})", a + "there is no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", a + "there is no shape"},
      {R"({"a":{"dtype":"F32","shape":[6]}})", a + "there is no data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24],"color":1}})",
       a + "\"color\" is no member of this"},
      {with("\"F31\"", "[2,3]", "[0,24]"), a + "dtype: there is no type \"F31\""},
      {with("\"f32\"", "[2,3]", "[0,24]"), a + "dtype: there is no type \"f32\""},
      {with("32", "[2,3]", "[0,24]"), a + "dtype: this is no text"},
      {with("\"F64\"", "[2,3]", "[0,24]"),
       a + "data_offsets: has 24 bytes, and float64 [2, 3] takes 48"},
      {shape("6"), a + "shape: this is no list"},
      {shape("[2,-3]"), a + "shape: -3 is not between 0 and 9223372036854775807"},
      {shape("[-9223372036854775808]"), a + "shape: -9223372036854775808 is not between"},
      {shape("[9223372036854775808]"), a + "shape: 9223372036854775808 is not between"},
      {shape("[18446744073709551615]"), a + "shape: 18446744073709551615 is not between"},
      {shape("[18446744073709551616]"), a + "shape: this is no whole number"},
      {shape("[6.0]"), a + "shape: this is no whole number"},
      {shape("[true]"), a + "shape: this is no whole number"},
      {shape("[\"6\"]"), a + "shape: this is no whole number"},
      {shape("[2305843009213693952]"), a + "shape: [2305843009213693952] is too large"},
      {shape("[4294967296,4294967296]"), a + "shape: [4294967296, 4294967296] is too large"},
      // Times four these are 24 modulo 2^64.
      {shape("[4611686018427387910]"), a + "shape: [4611686018427387910] is too large"},
      {shape("[0,4611686018427387904,2]"), a + "shape: [0, 4611686018427387904, 2] is too large"},
      {shape("[1,1,1,1,6]"), a + "shape: 5 numbers, more than 4"},
      {shape("[2,2]"), a + "data_offsets: has 24 bytes, and float32 [2, 2] takes 16"},
      {shape("[0]"), a + "data_offsets: has 24 bytes, and float32 [0] takes 0"},
      {offsets("24"), a + "data_offsets: this is no list"},
      {offsets("[24]"), a + "data_offsets: there are not two of them"},
      {offsets("[0,12,24]"), a + "data_offsets: 3 numbers, more than 2"},
      {offsets("[-1,23]"), a + "data_offsets: -1 is not between"},
      {offsets("[24,0]"), a + "data_offsets: ends at 0, before it begins at 24"},
      {offsets("[18446744073709551592,0]"), a + "data_offsets: 18446744073709551592 is not"},
      {offsets("[9223372036854775783,9223372036854775807]"),
       a + "data_offsets: ends at 9223372036854775807, and the file has 24 bytes of data"},
      {offsets("[0,24]"), a + "data_offsets: ends at 24, and the file has 23 bytes of data", 23},
      {offsets("[0,24]"), ": the last 1 bytes belong to no tensor", 25},
      {offsets("[1,25]"), a + "data_offsets: begins at 1, behind a gap that begins at 0", 25},
      {"{}", ": the last 24 bytes belong to no tensor"},
      {pair("[0,16]", "[15,23]"),
       ": tensor \"b\": data_offsets: begins at 15, inside the tensor before it, which ends at 16",
       23},
      {pair("[0,16]", "[0,8]"), a + "data_offsets: begins at 0, inside the tensor before", 16},
      {pair("[0,16]", "[4,12]"), ": tensor \"b\": data_offsets: begins at 4, inside", 16},
      {pair("[0,16]", "[17,25]"),
       ": tensor \"b\": data_offsets: begins at 17, behind a gap that begins at 16", 25},
      {R"({"__metadata__":[]})", ": __metadata__: this is no object", 0},
      {R"({"__metadata__":{"x":1}})", ": __metadata__: \"x\": this is no text", 0},
  };
  for (const Case& hostile : cases) {
    SCOPED_TRACE(hostile.header.substr(0, 120));
    expectRefused(fileOf(hostile.header, hostile.dataBytes), hostile.reason);
  }
}

TEST_F(Safetensors, ANameIsShownShortAndEscaped) {
  const std::string name = std::string(5000, 'n');
  const Outcome outcome = opened(fileOf("{\"\\u001b[31m\\n" + name + "\":0}", 0));
  EXPECT_NE(outcome.text.find(R"("\u001b[31m\nnnn)"), std::string::npos) << outcome.text;
  EXPECT_LT(outcome.text.size(), path_.string().size() + 200);
}

TEST_F(Safetensors, AHostileLengthIsRefused) {
  const std::string good = fileOf(kGood, 24);
  const auto withLength = [&](uint64_t length) { return lengthBytes(length) + good.substr(8); };
  EXPECT_EQ(opened(good).text, "no error");
  expectRefused("", ": header length: the file has 0 bytes");
  expectRefused("1234567", ": header length: the file has 7 bytes");
  expectRefused(withLength(0), ": header length: it is 0");
  expectRefused(withLength(good.size() - 7), ": header length: 82 is past the end of the file");
  for (const uint64_t huge : {kMostHeaderBytes + 1, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}})
    expectRefused(withLength(huge),
                  ": header length: " + std::to_string(huge) + " is more than 100000000");
  // A header of zeros as long as can be, in a file that is only holes.
  file(lengthBytes(kMostHeaderBytes));
  std::filesystem::resize_file(path_, kMostHeaderBytes + 8);
  EXPECT_EQ(outcomeOf([&] { readAll(path_); }).text,
            path_.string() + ": header: it does not begin with {");
}

TEST_F(Safetensors, CutAnywhereAFileIsRefused) {
  const std::string good = fileOf(kGood, 24);
  for (size_t length = 0; length < good.size(); ++length)
    expectRefused(good.substr(0, length), ": ");
}

TEST_F(Safetensors, OnlyRegularFilesAreRead) {
  const auto outcome = [](const std::filesystem::path& path) {
    return outcomeOf([&] { SafetensorsReader reader(path); });
  };
  const auto pipe = folder_.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(outcome(pipe).text, pipe.string() + " is no regular file");
  EXPECT_EQ(outcome("/dev/zero").text, "/dev/zero is no regular file");
  EXPECT_EQ(outcome(folder_.path()).text, folder_.path().string() + " is no regular file");
  EXPECT_EQ(outcome(path_).code, ErrorCode::System);
  EXPECT_EQ(outcome(path_).text, "cannot open " + path_.string() + ": No such file or directory");
}

// A mapping would end the process by SIGBUS.
TEST_F(Safetensors, AFileThatShrinksWhileItIsReadIsRefused) {
  SafetensorsReader reader(file(fileOf(kGood, 24)));
  std::array<float, 6> values;
  const Tensor to(values.data(), DType::Float32, {2, 3});
  reader.read("a", to);
  std::filesystem::resize_file(path_, 8 + kGood.size() + 10);
  EXPECT_EQ(outcomeOf([&] { reader.read("a", to); }).text,
            path_.string() + ": \"a\": the file ends at byte 75, 14 bytes too early");
  reader.release();
  EXPECT_EQ(outcomeOf([&] { reader.read("a", to); }).text,
            path_.string() + " has 75 bytes, and had 89 when its header was read");
}

TEST_F(Safetensors, OfAnotherTypeOrShapeATensorIsNotRead) {
  SafetensorsReader reader(file(fileOf(kGood, 24)));
  std::array<double, 6> values;
  const std::string is = path_.string() + ": tensor \"a\" is float32 [2, 3], not ";
  EXPECT_EQ(outcomeOf([&] {
              reader.read("a", {values.data(), DType::Float64, {2, 3}});
            }).text,
            is + "float64 [2, 3]");
  EXPECT_EQ(outcomeOf([&] {
              reader.read("a", {values.data(), DType::Float32, {3, 2}});
            }).text,
            is + "float32 [3, 2]");
  Tensor strided(values.data(), DType::Float32, {2, 3});
  strided.strides[0] = 4;
  EXPECT_EQ(outcomeOf([&] { reader.read("a", strided); }).text,
            path_.string() + ": tensor \"a\": its memory is not contiguous");
}

TEST_F(Safetensors, BeyondFourGibibytesDataIsWrittenAndRead) {
  // The first tensor is a hole: nobody writes it.
  constexpr int64_t kHole = (int64_t{5} << 30) + 3;
  std::array<uint8_t, 4> values{1, 2, 3, 4}, back{};
  SafetensorsWriter writer(path_, {{"b", DType::UInt8, {4}}, {"a", DType::UInt8, {kHole}}});
  writer.write("b", Tensor(values.data(), DType::UInt8, {4}));
  SafetensorsReader reader(path_);
  EXPECT_GT(reader.bytes(), uint64_t{5} << 30);
  EXPECT_EQ(reader.entry("b").begin, static_cast<uint64_t>(kHole));
  reader.read("b", Tensor(back.data(), DType::UInt8, {4}));
  EXPECT_EQ(back, values);
  reader.read(reader.entry("a"), kHole - 4, back.data(), 4);
  EXPECT_EQ(back, (std::array<uint8_t, 4>{}));
  EXPECT_EQ(outcomeOf([&] { writer.finish(); }).text,
            path_.string() + ": tensor \"a\" was not written");
}

TEST_F(Safetensors, AWriterRefusesWhatNobodyCouldRead) {
  const auto made = [&](std::vector<SafetensorsEntry> entries) {
    std::filesystem::remove(path_);
    return outcomeOf([&] { SafetensorsWriter(path_, std::move(entries)); }).text;
  };
  const std::string path = path_.string();
  EXPECT_EQ(made({{"a", DType::Int8, {1}}, {"b", DType::Int8, {1}}, {"a", DType::Int16, {1}}}),
            path + ": tensor \"a\" is there twice");
  EXPECT_EQ(made({{"__metadata__", DType::Int8, {1}}}),
            path + ": no tensor can be called __metadata__");
  EXPECT_EQ(made({{"\xff", DType::Int8, {1}}}), path + ": \"\xef\xbf\xbd\" is not UTF-8");
  EXPECT_EQ(made({{"a", DType::Int64, {int64_t{1} << 61}}}),
            path + ": tensor \"a\": [2305843009213693952] is too large");
  EXPECT_EQ(made({{"a", DType::Int8, {int64_t{1} << 62}}, {"b", DType::Int8, {int64_t{1} << 62}}}),
            path + ": tensor \"b\": the file would be too large");
  EXPECT_EQ(made({{"a", DType::Int8, {1}}}), "no error");
  EXPECT_EQ(outcomeOf([&] { SafetensorsWriter(path_, {}); }).text,
            "cannot create " + path + ": File exists");

  std::filesystem::remove(path_);
  int8_t value = 1;
  const Tensor one(&value, DType::Int8, {1});
  SafetensorsWriter writer(path_, {{"a", DType::Int8, {1}}});
  EXPECT_EQ(outcomeOf([&] { writer.write("b", one); }).text,
            path + ": tensor \"b\" was not declared");
  EXPECT_EQ(outcomeOf([&] { writer.write("a", Tensor(&value, DType::Int8, {})); }).text,
            path + ": tensor \"a\" is int8 [1], not int8 []");
  writer.write("a", one);
  EXPECT_EQ(outcomeOf([&] { writer.write("a", one); }).text,
            path + ": tensor \"a\" is written twice");
}

/// Replaces one of the numbers of a text.
std::string withOtherNumber(const std::string& text, tests::Mutator& random) {
  constexpr const char* kEdges[] = {"-1",
                                    "0",
                                    "1",
                                    "3",
                                    "8",
                                    "24",
                                    "4294967296",
                                    "4611686018427387910",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "1e3",
                                    "0.5",
                                    "null",
                                    "[]"};
  std::vector<std::pair<size_t, size_t>> numbers;
  for (size_t i = 0; i < text.size(); ++i)
    if (std::isdigit(text[i]) && (text[i - 1] == '[' || text[i - 1] == ',')) {
      const size_t end = text.find_first_not_of("0123456789", i);
      numbers.emplace_back(i, end - i);
      i = end;
    }
  const auto [at, length] = numbers[random.below(numbers.size())];
  return std::string(text).replace(at, length, kEdges[random.below(std::size(kEdges))]);
}

TEST_F(Safetensors, Fuzz) {
  const std::string header =
      R"({"__metadata__":{"x":"y"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"U8","shape":[8],"data_offsets":[24,32]},)"
      R"("c":{"dtype":"F64","shape":[3,0],"data_offsets":[32,32]}})";
  const std::string whole = fileOf(header, 32);
  base::Bytes bytes(whole.size());
  std::memcpy(bytes.data(), whole.data(), whole.size());
  tests::Mutator mutator(tests::testSeed());
  int accepted = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string contents;
    if (mutator.below(2) == 0) {
      const base::Bytes changed = mutator.mutate(bytes);
      contents.assign(reinterpret_cast<const char*>(changed.data()), changed.size());
    } else {
      std::string changed = withOtherNumber(header, mutator);
      if (mutator.below(2) == 0) changed = withOtherNumber(changed, mutator);
      contents = fileOf(changed, 32);
    }
    const Outcome outcome = opened(contents);
    if (outcome.text == "no error") {
      ++accepted;
      continue;
    }
    ++refused;
    ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    ASSERT_EQ(outcome.text.find(path_.string()), 0u) << outcome.text;
  }
  EXPECT_GT(accepted, 100) << "no input is good: the test tests nothing";
  EXPECT_GT(refused, 1000) << "no input is bad: the test tests nothing";
  std::cout << accepted << " accepted, " << refused << " refused\n";
}

}  // namespace
}  // namespace tutti::parallel
