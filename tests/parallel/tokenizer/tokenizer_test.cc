// Tokenizers: the ids that Hugging Face's own library gives (tokenizers/make_reference.py),
// whatever the text; every text comes back; what a tokenizer.json asks for that is not done here is
// refused by name, and hostile files are refused whatever they say.

#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "parallel/checkpoint/json.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/bpe_tokenizer.h"
#include "parallel/tokenizer/byte_characters.h"
#include "parallel/tokenizer/utf8.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using tests::Outcome;
using tests::outcomeOf;

const std::vector<std::string> kNames{"gpt2", "llama3", "qwen2"};

std::string pathOf(const std::string& name) { return TUTTI_TOKENIZERS "/" + name + ".json"; }

Json jsonOf(const std::string& name) { return Json::parse(tests::contentsOf(pathOf(name))); }

std::string shown(const std::string& text) { return inQuotes(text); }

TEST(Tokenizers, GiveTheIdsOfTheReference) {
  const Json texts = jsonOf("texts");
  ASSERT_GT(texts.size(), 200u);
  for (const std::string& name : kNames) {
    const auto tokenizer = openTokenizer(pathOf(name));
    size_t joined = 0;
    for (const Json& row : texts) {
      const auto text = row["text"].get<std::string>();
      const auto expected = row[name].get<std::vector<int32_t>>();
      const auto ids = tokenizer->encode(text);
      EXPECT_EQ(ids, expected) << name << ": " << shown(text);
      EXPECT_EQ(tokenizer->decode(ids), text) << name;
      joined += text.size() - ids.size();
    }
    EXPECT_GT(joined, texts.size()) << "hardly a merge was needed: the test tests nothing";
  }
}

// A long text comes in parts, and pieces whose ids are kept are like those that are not.
TEST(Tokenizers, EncodeTextsOfAnyLength) {
  for (const std::string& name : kNames) {
    const auto tokenizer = openTokenizer(pathOf(name));
    std::string text;
    for (const Json& row : jsonOf("texts")) text += row["text"].get<std::string>();
    const std::vector<int32_t> once = tokenizer->encode(text + "<|endoftext|>");
    std::vector<int32_t> thrice;
    int parts = 0;
    std::string all;
    for (int i = 0; i < 3; ++i) all += text + "<|endoftext|>";
    tokenizer->encodeTo(all, [&](std::span<const int32_t> more) {
      thrice.insert(thrice.end(), more.begin(), more.end());
      ++parts;
    });
    EXPECT_GT(parts, 1);
    ASSERT_EQ(thrice.size(), 3 * once.size());
    for (size_t i = 0; i < thrice.size(); ++i) ASSERT_EQ(thrice[i], once[i % once.size()]) << i;
  }
}

// A word of as many letters takes n log n, not n^2.
TEST(Tokenizers, EncodeAWordWithoutAnEnd) {
  for (const std::string& name : kNames) {
    const auto tokenizer = openTokenizer(pathOf(name));
    for (const std::string part : {"the", " ", "1", "\n", "!"}) {
      std::string text;
      while (text.size() < 200'000) text += part;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    }
  }
}

TEST(Tokenizers, KnowWhatStandsBeforeEveryText) {
  EXPECT_EQ(openTokenizer(pathOf("gpt2"))->beginning(), std::vector<int32_t>{});
  EXPECT_EQ(openTokenizer(pathOf("llama3"))->beginning(), std::vector<int32_t>{403});
  EXPECT_EQ(openTokenizer(pathOf("llama3"))->vocabulary(), 405);
}

TEST(Tokenizers, RefuseTextsThatAreNoneAndNameTheByte) {
  const auto tokenizer = openTokenizer(pathOf("gpt2"));
  const std::pair<std::string, size_t> cases[] = {
      {"\xff", 0},          {"abc\x80", 3},
      {"\xc3", 0},          {"ab\xe2\x82", 2},
      {"\xc0\xaf", 0},      {"x\xe0\x80\xaf", 1},
      {"\xed\xa0\x80", 0},  {"\xf4\x90\x80\x80", 0},
      {"\xc3\xa9\xc3(", 2}, {"\xf0\x9f\x98\x80\xf0", 4}};
  for (const auto& [text, at] : cases) {
    const Outcome outcome = outcomeOf([&, &bytes = text] { tokenizer->encode(bytes); });
    EXPECT_EQ(outcome.text, message("the text: byte ", at, " is no UTF-8"));
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  }
}

TEST(Tokenizers, RefuseIdsThatAreNone) {
  const auto tokenizer = openTokenizer(pathOf("gpt2"));
  const std::vector<int32_t> ids{5, 435}, negative{-1}, notByte{256};
  EXPECT_EQ(outcomeOf([&] { tokenizer->decode(ids); }).text, "token 435 is not in the vocabulary");
  EXPECT_EQ(outcomeOf([&] { tokenizer->decode(negative); }).code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcomeOf([&] { ByteTokenizer().decode(notByte); }).text, "token 256 is no byte");
  EXPECT_EQ(outcomeOf([&] { ByteTokenizer().decode(negative); }).text, "token -1 is no byte");
}

TEST(ByteTokenizers, TakeEveryByte) {
  std::string all;
  for (int i = 0; i < 9000; ++i) all += static_cast<char>(i * 7);
  const ByteTokenizer tokenizer;
  const auto ids = tokenizer.encode(all);
  ASSERT_EQ(ids.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(ids[i], static_cast<unsigned char>(all[i]));
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_EQ(tokenizer.encode(""), std::vector<int32_t>{});
}

// So that a folder for others has a file of it.
TEST(ByteTokenizers, HaveAFile) {
  const BpeTokenizer tokenizer(parseTokenizer("bytes", byteTokenizerText()));
  const std::string text = "a \u00e9\n\U0001f600\x01";
  EXPECT_EQ(tokenizer.encode(text), ByteTokenizer().encode(text));
  EXPECT_EQ(tokenizer.vocabulary(), 256);
}

TEST(ByteCharacters, AreThoseOfGpt2) {
  EXPECT_EQ(spelled(" the\n"), "\u0120the\u010a");
  EXPECT_EQ(spelled("\x7f\xad\xff"), "\u0121\u0143\u00ff");
  EXPECT_EQ(unspelled("\u0120\u00e9"), " \xe9");
  EXPECT_EQ(unspelled(" "), std::nullopt);
  EXPECT_EQ(unspelled("\u0144"), std::nullopt);
  EXPECT_EQ(unspelled("\xff"), std::nullopt);
}

TEST(TokenizerFiles, FingerprintsTellTokenizersApart) {
  const std::string gpt2 = openTokenizer(pathOf("gpt2"))->fingerprint();
  EXPECT_EQ(gpt2.size(), 32u);
  // Written in another way it is the same tokenizer.
  Json same = jsonOf("gpt2");
  for (Json& merge : same["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  EXPECT_EQ(BpeTokenizer(parseTokenizer("", same.dump())).fingerprint(), gpt2);
  Json other = jsonOf("gpt2");
  std::swap(other["model"]["merges"][3], other["model"]["merges"][4]);
  EXPECT_NE(BpeTokenizer(parseTokenizer("", other.dump())).fingerprint(), gpt2);
  other = jsonOf("gpt2");
  other["added_tokens"].erase(1);
  EXPECT_NE(BpeTokenizer(parseTokenizer("", other.dump())).fingerprint(), gpt2);
  EXPECT_NE(openTokenizer(pathOf("qwen2"))->fingerprint(), gpt2);
  EXPECT_EQ(openTokenizer("")->fingerprint(), "bytes");
}

/// What a file says is refused like this when `change` is made to it.
void expectRefused(const std::string& name, const std::string& reason,
                   const std::function<void(Json&)>& change) {
  Json json = jsonOf(name);
  change(json);
  const Outcome outcome = outcomeOf([&] { parseTokenizer("file", json.dump()); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcome.text.find("file: " + reason), 0u) << outcome.text << "\nis not: " << reason;
}

TEST(TokenizerFiles, WhatIsNotDoneHereIsRefusedByName) {
  const auto set = [](const char* pointer, const Json& value) {
    return [pointer, value](Json& json) { json[Json::json_pointer(pointer)] = value; };
  };
  const Json nfc = {{"type", "NFC"}};
  expectRefused("gpt2", "normalizer: \"{\\\"type\\\":\\\"NFC\\\"}\" is not supported",
                set("/normalizer", nfc));
  expectRefused("llama3", "model: type: \"Unigram\" is not supported here, BPE is",
                set("/model/type", "Unigram"));
  expectRefused("gpt2", "model: dropout: \"0.1\"", set("/model/dropout", 0.1));
  expectRefused("gpt2", "model: end_of_word_suffix: ", set("/model/end_of_word_suffix", "</w>"));
  expectRefused(
      "gpt2", "model: continuing_subword_prefix: ", set("/model/continuing_subword_prefix", "##"));
  expectRefused("llama3", "model: byte_fallback: \"true\"", set("/model/byte_fallback", true));
  expectRefused("gpt2", "model: \"extra\" is no member", set("/model/extra", 1));
  expectRefused("gpt2", "pre_tokenizer: type: \"Metaspace\" is not supported",
                set("/pre_tokenizer/type", "Metaspace"));
  expectRefused("gpt2", "pre_tokenizer: add_prefix_space: \"true\"",
                set("/pre_tokenizer/add_prefix_space", true));
  expectRefused("gpt2", "pre_tokenizer: use_regex: false", set("/pre_tokenizer/use_regex", false));
  const std::string split = "/pre_tokenizer/pretokenizers/0";
  expectRefused("llama3", "pre_tokenizer: pretokenizers[0]: pattern: Regex: \"\\\\w+\" is not one",
                set("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"));
  expectRefused("llama3", "pre_tokenizer: pretokenizers[0]: pattern: there is no Regex",
                set("/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}));
  expectRefused("llama3", "pre_tokenizer: pretokenizers[0]: behavior: only Isolated",
                set("/pre_tokenizer/pretokenizers/0/behavior", "Removed"));
  expectRefused("llama3", "pre_tokenizer: pretokenizers[0]: invert: ",
                set("/pre_tokenizer/pretokenizers/0/invert", true));
  expectRefused("llama3", "pre_tokenizer: pretokenizers[1]: use_regex: true",
                set("/pre_tokenizer/pretokenizers/1/use_regex", true));
  expectRefused("llama3", "pre_tokenizer: pretokenizers: there are 1 of them",
                [](Json& json) { json["pre_tokenizer"]["pretokenizers"].erase(1); });
  expectRefused("gpt2", "post_processor: type: \"BertProcessing\"",
                set("/post_processor/type", "BertProcessing"));
  expectRefused("llama3", "post_processor: processors: single: what stands behind", [](Json& json) {
    Json& single = json["post_processor"]["processors"][1]["single"];
    std::swap(single[0], single[1]);
  });
  expectRefused("gpt2", "decoder: type: \"WordPiece\"", set("/decoder/type", "WordPiece"));
  expectRefused("gpt2", "\"extra\" is no member", set("/extra", 1));
  for (const char* flag : {"single_word", "lstrip", "rstrip"})
    expectRefused("gpt2", message("added_tokens[2]: ", flag, ": \"true\" is not supported"),
                  [&](Json& json) { json["added_tokens"][2][flag] = true; });
}

TEST(TokenizerFiles, WhatCannotBeIsRefused) {
  const auto vocab = [](const std::function<void(Json&)>& change) {
    return [change](Json& json) { change(json["model"]["vocab"]); };
  };
  expectRefused("gpt2", "model: vocab: there is no token for byte 32",
                vocab([](Json& words) { words.erase("\u0120"); }));
  expectRefused("gpt2", "model: vocab: \"#\": 1 is \"\\\"\" too",
                vocab([](Json& words) { words["#"] = 1; }));
  expectRefused("gpt2", "model: vocab: \"#\": -1 is no token id",
                vocab([](Json& words) { words["#"] = -1; }));
  expectRefused("gpt2", "model: vocab: \"#\": 2147483647 is no token id",
                vocab([](Json& words) { words["#"] = 2147483647; }));
  // A model would have a row for each id below it.
  expectRefused("gpt2", "model: vocab: \"#\": 2147483646 is no id of a token: of 43",
                vocab([](Json& words) { words["#"] = 2147483646; }));
  expectRefused("gpt2", "model: vocab: \"#\": 1.5 is no token id",
                vocab([](Json& words) { words["#"] = 1.5; }));
  expectRefused("gpt2", "model: vocab: \"\": a token of no characters",
                vocab([](Json& words) { words[""] = 999; }));
  const auto merge = [](const Json& value) {
    return [value](Json& json) { json["model"]["merges"][2] = value; };
  };
  expectRefused("gpt2", "model: merges[2]: \"\\\"a\\\"\" is not two tokens", merge("a"));
  expectRefused("gpt2", "model: merges[2]: \"\\\"a b c\\\"\" is not two tokens", merge("a b c"));
  expectRefused("gpt2", "model: merges[2]: \"[\\\"a\\\"]\" is not two tokens",
                merge(Json::array({"a"})));
  expectRefused("gpt2", "model: merges[2]: \"[\\\"a\\\",1]\" is not two tokens", merge({"a", 1}));
  expectRefused("gpt2", "model: merges[2]: \"zzz\" is not in the vocabulary", merge("zzz a"));
  expectRefused("gpt2", "model: merges[2]: \"zq\" is not in the vocabulary", merge("z q"));
  expectRefused("gpt2", "model: merges[2]: ", [](Json& json) {
    json["model"]["merges"][2] = json["model"]["merges"][1];
  });
  const auto added = [](const char* key, const Json& value) {
    return [key, value](Json& json) { json["added_tokens"][1][key] = value; };
  };
  expectRefused("gpt2", "added_tokens[1]: id: 430 is \"<|endoftext|>\" too", added("id", 430));
  expectRefused("gpt2", "added_tokens: \"<|a|>\": 100000 is no id of a token: of 43",
                added("id", 100'000));
  expectRefused("gpt2", "added_tokens[1]: id: 0 is \"!\" too", added("id", 0));
  expectRefused("gpt2", "added_tokens[1]: id: 431 is not that of \"!\"", added("content", "!"));
  expectRefused("gpt2", "added_tokens[1]: content: it is empty", added("content", ""));
  expectRefused("gpt2", "added_tokens[1]: content: \"<|endoftext|>\" is there twice",
                added("content", "<|endoftext|>"));
  // The byte e9 is spelled so; the text has two others.
  expectRefused("gpt2", "added_tokens[1]: content: \"\u00e9\" spells other bytes", [](Json& json) {
    json["added_tokens"][1]["content"] = "\u00e9";
    json["added_tokens"][1]["id"] = json["model"]["vocab"]["\u00e9"];
  });
  const auto special = [](const Json& ids) {
    return [ids](Json& json) {
      json["post_processor"]["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = ids;
    };
  };
  expectRefused("llama3", "post_processor: special_tokens: 5 is the id of no added", special({5}));
  expectRefused("llama3",
                "post_processor: processors: special_tokens: \"<|begin_of_text|>\": ids: ",
                special({5000000000}));
}

TEST(TokenizerFiles, ErrorsNameTheFile) {
  const tests::TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  tests::setContents(path, "{");
  EXPECT_EQ(outcomeOf([&] { openTokenizer(path); }).text,
            path.string() + ": this is no JSON, at byte 2");
  EXPECT_EQ(outcomeOf([&] { openTokenizer(folder.path() / "absent"); }).code, ErrorCode::System);
}

/// A file of few words, so that most changes meet a member.
std::string shortFile() {
  Json json = jsonOf("llama3");
  Json& model = json["model"];
  model["merges"] = Json::array({Json::array({"a", "b"}), "ab c"});
  for (const std::string key : {"ab", "abc"}) model["vocab"][key] = 1000 + key.size();
  model["vocab"].erase("xyzzy");
  return json.dump();
}

// PCRE2's own limit is ten million steps, and a run of spaces takes one for each.
TEST(Patterns, CutRunsOfAnyLength) {
  const std::string run(12'000'000, ' ');
  for (const PatternKind kind : {PatternKind::Gpt2, PatternKind::Llama3, PatternKind::Qwen2}) {
    std::vector<size_t> lengths;
    Pattern(kind).forEachPiece(run + "a",
                               [&](std::string_view piece) { lengths.push_back(piece.size()); });
    EXPECT_EQ(lengths, (std::vector<size_t>{run.size() - 1, 2})) << spellingOf(kind);
  }
}

// Whatever is changed in a file, it is refused, or is a tokenizer under which texts come back.
TEST(TokenizerFiles, Fuzz) {
  tests::Mutator mutator(tests::testSeed());
  const std::string good = shortFile(), text = "abc aabbcc <|endoftext|> \u00e9\n 12";
  const auto* data = reinterpret_cast<const std::byte*>(good.data());
  // The vocabulary's 256 bytes are most of the text: the part that is changed ends before them.
  const size_t head = good.find("\"model\"");
  ASSERT_NE(head, good.npos);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const size_t begin = i % 2 == 0 ? 0 : head, end = i % 2 == 0 ? head : good.size();
    const base::Bytes part = mutator.mutate(base::Bytes(data + begin, data + end));
    const std::string changed =
        good.substr(0, begin) +
        std::string(reinterpret_cast<const char*>(part.data()), part.size()) + good.substr(end);
    const Outcome outcome = outcomeOf([&] {
      const BpeTokenizer tokenizer(parseTokenizer("file", changed));
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << changed;
    });
    outcome.text == "no error" ? ++accepted : ++refused;
    if (outcome.text == "no error") continue;
    ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text << "\n" << changed;
    ASSERT_EQ(outcome.text.find("file: "), 0u) << outcome.text;
  }
  EXPECT_GT(accepted, 100) << "no input is good: the test tests nothing";
  EXPECT_GT(refused, 1000) << "no input is bad: the test tests nothing";
  std::cout << accepted << " accepted, " << refused << " refused\n";
}

}  // namespace
}  // namespace tutti::parallel
