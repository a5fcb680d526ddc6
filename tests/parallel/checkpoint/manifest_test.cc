// What checkpoints say of themselves: the same text for the same content, refused unless it is
// exactly what was written, also when somebody made the checksum fit.

#include "parallel/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "parallel/checkpoint/hash.h"
#include "parallel/checkpoint/json.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"

namespace tutti::parallel {
namespace {

using tests::Outcome;
using tests::outcomeOf;

// From the xxhash package of Python.
TEST(Hash, IsXxHash128) {
  std::string digits, all;
  for (int i = 0; i < 100; ++i) digits += "0123456789";
  for (int i = 0; i < 2048; ++i) all += static_cast<char>(i);
  EXPECT_EQ(hash128(nullptr, 0), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("a", 1), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(hash128(digits.data(), digits.size()), "c9df19c4eccbf540dbdf770360da5ac5");
  EXPECT_EQ(hash128(all.data(), all.size()), "df73e0768dd183fadd420471ff96bd00");
  for (const size_t piece : {1, 7, 64, 2047}) {
    Hash128 hash;
    for (size_t at = 0; at < all.size(); at += piece)
      hash.add(all.data() + at, std::min(piece, all.size() - at));
    EXPECT_EQ(hash.digits(), "df73e0768dd183fadd420471ff96bd00") << piece;
  }
}

const std::string kContent =
    R"({"files":{"rank-00000.safetensors":136,"rank-00001.safetensors":104},"format":1,)"
    R"("metadata":{"lr":0.25,"seed":-7,"who":"ann"},"step":12,)"
    R"("tensors":{"b":{"boxes":[{"begin":[],"end":[],"entry":"b","file":"rank-00000.safetensors",)"
    R"("xxh128":"00"}],"dtype":"F64","shape":[]},)"
    R"("w":{"boxes":[{"begin":[0,0],"end":[1,3],"entry":"w[0:1, 0:3]",)"
    R"("file":"rank-00000.safetensors","xxh128":"11"},)"
    R"({"begin":[1,0],"end":[4,3],"entry":"w[1:4, 0:3]","file":"rank-00001.safetensors",)"
    R"("xxh128":"22"}],"dtype":"BF16","shape":[4,3]}},"world":2})";

std::string withChecksum(const std::string& content) {
  return R"({"checkpoint":)" + content + R"(,"xxh128":")" +
         hash128(content.data(), content.size()) + "\"}\n";
}

Manifest someManifest() {
  ShardDescription first{.file = "rank-00000.safetensors", .bytes = 136};
  first.tensors["b"] = {DType::Float64, {}, {{{}, first.file, "b", "00"}}};
  first.tensors["w"] = {
      DType::BFloat16, {4, 3}, {{{{0, 1}, {0, 3}}, first.file, "w[0:1, 0:3]", "11"}}};
  ShardDescription second{.file = "rank-00001.safetensors", .bytes = 104};
  second.tensors["w"] = {
      DType::BFloat16, {4, 3}, {{{{1, 4}, {0, 3}}, second.file, "w[1:4, 0:3]", "22"}}};
  Manifest manifest{.step = 12, .world = 2};
  manifest.metadata = {{"lr", 0.25}, {"seed", int64_t{-7}}, {"who", "ann"}};
  manifest.add(first);
  manifest.add(second);
  return manifest;
}

TEST(Manifests, AreTheseBytesAndComeBack) {
  const Manifest manifest = someManifest();
  EXPECT_EQ(manifest.text(), withChecksum(kContent));
  EXPECT_EQ(Manifest::parse("here", manifest.text()), manifest);
  // Space does not matter.
  std::string spaced = manifest.text();
  spaced.insert(spaced.find("\"format\""), "\n  ");
  EXPECT_EQ(Manifest::parse("here", spaced), manifest);
}

/// kContent with something in place of the first occurrence of a part, under a checksum that fits.
Outcome parsedWith(const std::string& part, const std::string& other) {
  std::string content = kContent;
  EXPECT_NE(content.find(part), content.npos) << part;
  content.replace(content.find(part), part.size(), other);
  return outcomeOf([&] { Manifest::parse("here", withChecksum(content)); });
}

TEST(Manifests, ThatAreHostileAreRefusedByName) {
  struct Case {
    const char *part, *other, *reason;
  };
  const Case cases[] = {
      {"\"format\":1", "\"format\":2", "format: it is 2, and this reads 1"},
      {"\"format\":1", "\"format\":\"1\"", "format: this is no whole number"},
      {"\"format\":1,", "", "there is no format"},
      {"\"step\":12", "\"step\":-1", "step: -1 is not between 0 and 9223372036854775807"},
      {"\"step\":12,", "", "there is no step"},
      {"\"world\":2", "\"world\":0", "world: 0 is not between 1 and 2147483647"},
      {"\"world\":2", "\"world\":2147483648", "world: 2147483648 is not between"},
      {"{\"files\"", "{\"color\":1,\"files\"", "\"color\" is no member of this"},
      {"\"ann\"", "[]", "metadata \"who\": this is no whole number"},
      {"-7", "9223372036854775808", "metadata \"seed\": 9223372036854775808 is not between"},
      {"{\"lr\":0.25,\"seed\":-7,\"who\":\"ann\"}", "[]", "metadata: this is no object"},
      {":136", ":13",
       "tensor \"w\": boxes: [0:1, 0:3] of 6 bytes is more than \"rank-00000.safetensors\" has "
       "left of 13"},
      {":136", ":-1", "files: \"rank-00000.safetensors\": -1 is not between"},
      {"\"rank-00000.safetensors\":136", "\"../secret\":1", "files: \"../secret\" is no name of a"},
      {"\"file\":\"rank-00000.safetensors\"", "\"file\":\"/etc/passwd\"",
       "tensor \"b\": box 0: file: \"/etc/passwd\" is no name of a file"},
      {"\"file\":\"rank-00000.safetensors\"", "\"file\":\"..\"",
       "tensor \"b\": box 0: file: \"..\""},
      {"\"file\":\"rank-00000.safetensors\"", "\"file\":\"\"",
       "tensor \"b\": box 0: file: \"\" is"},
      {"\"file\":\"rank-00000.safetensors\"", "\"file\":\"a\\u0000\"",
       "tensor \"b\": box 0: file: \"a\\u0000\" is no name of a file"},
      {"\"file\":\"rank-00000.safetensors\"", "\"file\":\"other\"",
       "tensor \"b\": file: \"other\" is not among the files"},
      {"\"F64\"", "\"F63\"", "tensor \"b\": dtype: there is no type \"F63\""},
      {"\"shape\":[]", "\"shape\":[2]", "tensor \"b\": box 0: begin, end: [] is no box inside [2]"},
      {"[4,3]}", "[4,4]}", "tensor \"w\": boxes: [0:1, 3:4] is in none"},
      {"[4,3]}", "[4611686018427387904,3]}",
       "tensor \"w\": shape: [4611686018427387904, 3] is too large"},
      {"[4,3]}", "[4,3,1,1,1]}", "tensor \"w\": shape: 5 numbers, more than 4"},
      {"[4,3]}", "[4,-3]}", "tensor \"w\": shape: -3 is not between"},
      {"[1,3]", "[2,3]", "tensor \"w\": boxes: [1:2, 0:1] is in [0:2, 0:3] and in [1:4, 0:3]"},
      {"[1,3]", "[1,4]", "tensor \"w\": box 0: begin, end: [0:1, 0:4] is no box inside [4, 3]"},
      {"[1,3]", "[1]", "tensor \"w\": box 0: begin, end: [0:1] is no box inside [4, 3]"},
      {"[1,0]", "[5,0]", "tensor \"w\": box 1: begin, end: [5:4, 0:3] is no box inside [4, 3]"},
      {"[1,0]", "[-1,0]", "tensor \"w\": box 1: begin: -1 is not between"},
      {"[1,0]", "[1.0,0]", "tensor \"w\": box 1: begin: this is no whole number"},
      {"{\"begin\":[0,0]", "{\"begin\":[0,0],\"color\":0",
       "tensor \"w\": box 0: \"color\" is no member of this"},
      {"\"xxh128\":\"11\"", "\"xxh129\":\"11\"", "tensor \"w\": box 0: there is no xxh128"},
  };
  for (const Case& hostile : cases) {
    const Outcome outcome = parsedWith(hostile.part, hostile.other);
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << hostile.other;
    EXPECT_EQ(outcome.text.find(std::string("here: ") + hostile.reason), 0u)
        << outcome.text << "\nis not: " << hostile.reason;
  }
}

TEST(Manifests, ThatHaveChangedAreRefused) {
  const auto refusal = [](const std::string& text) {
    return outcomeOf([&] { Manifest::parse("here", text); }).text;
  };
  std::string text = withChecksum(kContent);
  EXPECT_EQ(refusal(text), "no error");
  EXPECT_EQ(refusal(""), "here: this is no JSON, at byte 1");
  EXPECT_EQ(refusal("{}"), "here: there is no checkpoint");
  EXPECT_EQ(refusal("[]"), "here: this is no object");
  EXPECT_EQ(refusal("{\"checkpoint\":" + kContent + "}"), "here: there is no xxh128");
  EXPECT_EQ(refusal(text + text), message("here: this is no JSON, at byte ", text.size() + 1));
  EXPECT_EQ(refusal("{\"x\":0," + text.substr(1)), "here: \"x\" is no member of this");
  text.replace(text.find("ann"), 3, "bob");
  EXPECT_EQ(refusal(text).find("here: xxh128: the content has changed, its checksum is "), 0u)
      << refusal(text);
}

TEST(Descriptions, OfShardsComeBackFromTheirBytes) {
  ShardDescription shard{.file = "rank-00000.safetensors", .bytes = uint64_t{5} << 32};
  shard.tensors["w"] = {DType::Int8, {4, 3}, {{{{1, 4}, {0, 2}}, shard.file, "w[1:4, 0:2]", "11"}}};
  shard.tensors["\"\n"] = {DType::Float8E5M2, {}, {{{}, shard.file, "\"\n", "22"}}};
  EXPECT_EQ(ShardDescription::parse(shard.serialize()), shard);
  EXPECT_EQ(ShardDescription::parse(ShardDescription{}.serialize()), ShardDescription{});
  const ShardDescription failed{.error = "rank 3: disk full"};
  EXPECT_EQ(ShardDescription::parse(failed.serialize()), failed);
  EXPECT_EQ(outcomeOf([] { ShardDescription::parse("{\"file\":\"\"}"); }).text,
            "description of a shard: there is no bytes");
}

/// Feeds changes of a text to a parser, which accepts or throws InvalidArgument.
template <class Parse>
void fuzz(const std::string& good, const Parse& parse) {
  tests::Mutator mutator(tests::testSeed());
  const auto* data = reinterpret_cast<const std::byte*>(good.data());
  const base::Bytes bytes(data, data + good.size());
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const base::Bytes changed = mutator.mutate(bytes);
    const std::string text(reinterpret_cast<const char*>(changed.data()), changed.size());
    const Outcome outcome = outcomeOf([&] { parse(text); });
    if (outcome.text == "no error") {
      ++accepted;
      continue;
    }
    ++refused;
    ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text << "\n" << text;
  }
  EXPECT_GT(accepted, 100) << "no input is good: the test tests nothing";
  EXPECT_GT(refused, 1000) << "no input is bad: the test tests nothing";
  std::cout << accepted << " accepted, " << refused << " refused\n";
}

// A member that is taken twice does not stand for one that nobody took.
TEST(JsonMembers, AreRefusedUnlessTheyAreTaken) {
  const Json json = {{"a", 1}, {"b", 2}};
  Members members("here", json);
  for (int i = 0; i < 2; ++i) members.take("a");
  EXPECT_EQ(outcomeOf([&] { members.finish(); }).text, "here: \"b\" is no member of this");
  members.take("b");
  EXPECT_EQ(outcomeOf([&] { members.finish(); }).text, "no error");
}

TEST(Manifests, Fuzz) {
  fuzz(kContent, [](const std::string& text) { Manifest::parse("here", withChecksum(text)); });
}

TEST(Manifests, FuzzUnderTheirChecksum) {
  const Manifest good = someManifest();
  fuzz(good.text(), [&](const std::string& text) {
    EXPECT_EQ(Manifest::parse("here", text), good) << "accepted, and not what was written\n"
                                                   << text;
  });
}

TEST(Descriptions, Fuzz) {
  ShardDescription shard{.file = "rank-00000.safetensors", .bytes = 99};
  shard.tensors["w"] = {DType::Int8, {4, 3}, {{{{1, 4}, {0, 2}}, shard.file, "w[1:4, 0:2]", "11"}}};
  fuzz(shard.serialize(), [](const std::string& text) {
    const ShardDescription parsed = ShardDescription::parse(text);
    EXPECT_EQ(ShardDescription::parse(parsed.serialize()), parsed);
  });
}

}  // namespace
}  // namespace tutti::parallel
