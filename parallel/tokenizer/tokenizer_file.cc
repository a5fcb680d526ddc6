#include "parallel/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/json.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/byte_characters.h"

namespace tutti::parallel {

namespace {

constexpr int64_t kMostId = std::numeric_limits<int32_t>::max() - 1;
/// Ids that no token has, beside as many as there are tokens: a model has a row for each.
constexpr int64_t kMostUnused = 65'536;

/// Refuses a member that is there, unless it is null or `allowed`.
void requireNone(Members& members, const char* key, const Json& allowed = nullptr) {
  if (!members.has(key)) return;
  const Json& value = members.take(key);
  if (!value.is_null() && value != allowed)
    fail(ErrorCode::InvalidArgument, members.place(key), ": ", inQuotes(value.dump()),
         " is not supported here");
}

/// Takes a member whose value changes nothing here.
void ignore(Members& members, const char* key) {
  if (members.has(key)) members.take(key);
}

/// An object that says its "type".
std::string typeOf(const std::string& where, const Json& value) {
  return Members(where, value).text("type");
}

void requireType(const std::string& where, const std::string& type, const char* supported) {
  require(type == supported, where, ": type: ", inQuotes(type), " is not supported here, ",
          supported, " is");
}

std::map<std::string, int32_t> vocabularyOf(const std::string& where, const Json& value) {
  std::map<std::string, int32_t> vocabulary;
  std::unordered_map<int32_t, std::string> byId;
  for (const auto& [token, id] : value.items()) {
    const auto refuse = [&, &name = token](const auto&... reason) {
      fail(ErrorCode::InvalidArgument, where, ": ", inQuotes(name), ": ", reason...);
    };
    if (token.empty()) refuse("a token of no characters");
    if (!id.is_number_integer() || id < 0 || id > kMostId) refuse(id.dump(), " is no token id");
    const auto number = id.get<int32_t>();
    const auto [other, isNew] = byId.emplace(number, token);
    if (!isNew) refuse(number, " is ", inQuotes(other->second), " too");
    vocabulary[token] = number;
  }
  for (int byte = 0; byte < 256; ++byte)
    require(vocabulary.contains(spelled(std::string(1, static_cast<char>(byte)))), where,
            ": there is no token for byte ", byte);
  return vocabulary;
}

/// "a b" or ["a", "b"].
std::optional<std::pair<std::string, std::string>> mergeOf(const Json& value) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) return {};
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  const bool two = value.is_array() && value.size() == 2;
  if (!two || !value[0].is_string() || !value[1].is_string()) return {};
  return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
}

void readMerges(const std::string& where, const Json& list, TokenizerDescription& tokenizer) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Json& value : list) {
    const auto refuse = [&](const auto&... reason) {
      fail(ErrorCode::InvalidArgument, where, "[", tokenizer.merges.size(), "]: ", reason...);
    };
    const auto merge = mergeOf(value);
    if (!merge) refuse(inQuotes(value.dump()), " is not two tokens");
    for (const std::string& token : {merge->first, merge->second, merge->first + merge->second})
      if (!tokenizer.vocabulary.contains(token))
        refuse(inQuotes(token), " is not in the vocabulary");
    if (!seen.insert(*merge).second) refuse(inQuotes(value.dump()), " is there twice");
    tokenizer.merges.push_back(*merge);
  }
}

void readModel(const std::string& where, const Json& value, TokenizerDescription& tokenizer) {
  Members members(where, value);
  // GPT-2's own file does not say it.
  if (members.has("type")) requireType(where, members.text("type"), "BPE");
  requireNone(members, "dropout", 0.0);
  requireNone(members, "continuing_subword_prefix", "");
  requireNone(members, "end_of_word_suffix", "");
  requireNone(members, "byte_fallback", false);
  for (const char* aboutUnknown : {"unk_token", "fuse_unk"}) ignore(members, aboutUnknown);
  if (members.has("ignore_merges")) tokenizer.wholeWords = members.flag("ignore_merges");
  tokenizer.vocabulary = vocabularyOf(members.place("vocab"), members.object("vocab"));
  readMerges(members.place("merges"), members.list("merges"), tokenizer);
  members.finish();
}

AddedToken addedTokenOf(const std::string& where, const Json& value) {
  Members members(where, value);
  AddedToken token;
  token.id = static_cast<int32_t>(members.whole("id", 0, kMostId));
  token.content = members.text("content");
  require(!token.content.empty(), members.place("content"), ": it is empty");
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) requireNone(members, flag, false);
  if (members.has("normalized")) token.normalized = members.flag("normalized");
  ignore(members, "special");
  members.finish();
  return token;
}

/// A token may be in the vocabulary too, if it is the same one there.
void requireSameInVocabulary(const std::string& where, const AddedToken& token,
                             const TokenizerDescription& tokenizer) {
  const auto found = tokenizer.vocabulary.find(token.content);
  if (found == tokenizer.vocabulary.end()) return;
  require(found->second == token.id, where, ": id: ", token.id, " is not that of ",
          inQuotes(token.content), " in the vocabulary");
  require(unspelled(token.content).value_or(token.content) == token.content, where,
          ": content: ", inQuotes(token.content), " spells other bytes in the vocabulary");
}

void readAddedTokens(const std::string& where, const Json& list, TokenizerDescription& tokenizer) {
  std::map<int32_t, std::string> byId;
  std::set<std::string> contents;
  for (const auto& [token, id] : tokenizer.vocabulary) byId[id] = token;
  for (const Json& value : list) {
    const std::string place = message(where, "[", tokenizer.added.size(), "]");
    const AddedToken token = addedTokenOf(place, value);
    require(contents.insert(token.content).second, place, ": content: ", inQuotes(token.content),
            " is there twice");
    requireSameInVocabulary(place, token, tokenizer);
    const auto [other, isNew] = byId.emplace(token.id, token.content);
    require(isNew || other->second == token.content, place, ": id: ", token.id, " is ",
            inQuotes(other->second), " too");
    tokenizer.added.push_back(token);
  }
}

/// The largest id is not far from how many tokens there are.
void requireDense(const std::string& where, const TokenizerDescription& tokenizer) {
  const auto tokens = std::ssize(tokenizer.vocabulary) + std::ssize(tokenizer.added);
  const int64_t most = tokens + tokens + kMostUnused;
  const auto check = [&](const char* member, const std::string& token, int64_t id) {
    if (id >= most)
      fail(ErrorCode::InvalidArgument, where, ": ", member, ": ", inQuotes(token), ": ", id,
           " is no id of a token: of ", tokens, " tokens all are below ", most);
  };
  for (const auto& [token, id] : tokenizer.vocabulary) check("model: vocab", token, id);
  for (const AddedToken& token : tokenizer.added) check("added_tokens", token.content, token.id);
}

/// ByteLevel, with GPT-2's pattern or, behind a Split, with none.
void readByteLevel(const std::string& where, const Json& value, bool pattern) {
  Members members(where, value);
  requireType(where, members.text("type"), "ByteLevel");
  requireNone(members, "add_prefix_space", false);
  const bool uses = !members.has("use_regex") || members.flag("use_regex");
  require(uses == pattern, members.place("use_regex"), ": ", uses ? "true" : "false",
          " is not supported here");
  ignore(members, "trim_offsets");
  members.finish();
}

PatternKind splitOf(const std::string& where, const Json& value) {
  Members members(where, value);
  requireType(where, members.text("type"), "Split");
  require(members.text("behavior") == "Isolated", members.place("behavior"),
          ": only Isolated is supported here");
  requireNone(members, "invert", false);
  Members pattern(members.place("pattern"), members.object("pattern"));
  const std::string spelling = pattern.text("Regex");
  pattern.finish();
  members.finish();
  const auto kind = patternOf(spelling);
  require(kind.has_value(), pattern.place("Regex"), ": ", inQuotes(spelling),
          " is not one of the patterns that are known here");
  return *kind;
}

PatternKind preTokenizerOf(const std::string& where, const Json& value) {
  const std::string type = typeOf(where, value);
  if (type == "ByteLevel") {
    readByteLevel(where, value, true);
    return PatternKind::Gpt2;
  }
  requireType(where, type, "Sequence");
  Members members(where, value);
  members.take("type");
  const std::string place = members.place("pretokenizers");
  const Json& list = members.list("pretokenizers");
  members.finish();
  require(list.size() == 2, place, ": there are ", list.size(),
          " of them; a Split and a ByteLevel are supported here");
  const PatternKind kind = splitOf(place + "[0]", list[0]);
  readByteLevel(place + "[1]", list[1], false);
  return kind;
}

/// The tokens that a template puts before a text.
std::vector<int32_t> templateOf(const std::string& where, const Json& value) {
  Members members(where, value);
  requireType(where, members.text("type"), "TemplateProcessing");
  const Json& special = members.object("special_tokens");
  std::vector<int32_t> ids;
  bool text = false;
  for (const Json& part : members.list("single")) {
    const std::string place = members.place("single");
    require(!text, place, ": what stands behind the text is not supported here");
    text = part.is_object() && part.contains("Sequence");
    if (text) continue;
    Members token(place, part);
    const std::string name = Members(place, token.object("SpecialToken")).text("id");
    const std::string known = message(members.place("special_tokens"), ": ", inQuotes(name));
    require(special.contains(name), known, ": it is not there");
    Members entry(known, special[name]);
    for (const int64_t id : entry.wholes("ids", 16))
      ids.push_back(static_cast<int32_t>(wholeNumber(entry.place("ids"), id, 0, kMostId)));
  }
  require(text, members.place("single"), ": it has no place for the text");
  ignore(members, "pair");
  members.finish();
  return ids;
}

std::vector<int32_t> beginningOf(const std::string& where, const Json& value) {
  if (value.is_null()) return {};
  const std::string type = typeOf(where, value);
  if (type == "ByteLevel") return {};  // about offsets, of which there are none here
  if (type != "Sequence") return templateOf(where, value);
  Members members(where, value);
  std::vector<int32_t> ids;
  for (const Json& part : members.list("processors")) {
    // What a later one puts before a text stands before that of an earlier one.
    const std::vector<int32_t> more = beginningOf(members.place("processors"), part);
    ids.insert(ids.begin(), more.begin(), more.end());
  }
  return ids;
}

void requireBeginningKnown(const std::string& where, const TokenizerDescription& tokenizer) {
  for (const int32_t id : tokenizer.beginning)
    require(std::ranges::any_of(tokenizer.added, [&](const auto& t) { return t.id == id; }), where,
            ": special_tokens: ", id, " is the id of no added token");
}

void readDecoder(const std::string& where, const Json& value) {
  if (!value.is_null()) requireType(where, typeOf(where, value), "ByteLevel");
}

}  // namespace

TokenizerDescription parseTokenizer(const std::string& where, std::string_view text) {
  const Json json = parseJson(where, text);
  Members members(where, json);
  TokenizerDescription tokenizer;
  for (const char* key : {"version", "truncation", "padding"}) ignore(members, key);
  requireNone(members, "normalizer");
  readModel(members.place("model"), members.object("model"), tokenizer);
  readAddedTokens(members.place("added_tokens"), members.list("added_tokens"), tokenizer);
  requireDense(where, tokenizer);
  const std::string pre = members.place("pre_tokenizer"), post = members.place("post_processor");
  tokenizer.pattern = preTokenizerOf(pre, members.object("pre_tokenizer"));
  if (members.has("post_processor"))
    tokenizer.beginning = beginningOf(post, members.take("post_processor"));
  requireBeginningKnown(post, tokenizer);
  if (members.has("decoder")) readDecoder(members.place("decoder"), members.take("decoder"));
  members.finish();
  return tokenizer;
}

TokenizerDescription readTokenizerFile(const std::filesystem::path& path) {
  const std::string text = readText(path, kMostTokenizerBytes);
  return inMemory(path.string(), text.size(), [&] { return parseTokenizer(path.string(), text); });
}

std::string tokenizerText(const std::string& path) {
  return path.empty() ? byteTokenizerText() : readText(path, kMostTokenizerBytes);
}

std::string byteTokenizerText() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[spelled(std::string(1, static_cast<char>(byte)))] = byte;
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  Json before = level;
  before["use_regex"] = true;
  const Json model = {{"type", "BPE"},        {"dropout", nullptr},
                      {"unk_token", nullptr}, {"continuing_subword_prefix", nullptr},
                      {"fuse_unk", false},    {"end_of_word_suffix", nullptr},
                      {"vocab", vocabulary},  {"merges", Json::array()}};
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", before},
                     {"post_processor", nullptr},
                     {"decoder", before},
                     {"model", model}};
  return file.dump(1) + "\n";
}

}  // namespace tutti::parallel
