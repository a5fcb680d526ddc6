#include "parallel/kernels/cuda/gemm/table.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

constexpr size_t kMostBytes = 1 << 20;

std::string wordOf(int32_t bits, int32_t resultBits) {
  return bits == resultBits ? message(bits) : message(bits, "to", resultBits);
}

/// Sets the key's; false where the word is none.
bool setBits(GemmKey& key, const std::string& word) {
  for (const auto& [bits, resultBits] : {std::pair{16, 16}, {32, 32}, {16, 32}}) {
    key.bits = bits, key.resultBits = resultBits;
    if (word == wordOf(bits, resultBits)) return true;
  }
  return false;
}

/// Of `content`, which is not empty. Throws InvalidArgument.
std::pair<GemmKey, GemmForced> entryOf(const std::string& content) {
  std::istringstream words(content);
  GemmKey key{};
  std::string stored, bits, choice, more;
  const bool isRead(words >> key.rows >> key.columns >> key.depth >> stored >> bits >> choice);
  const bool isArranged = stored == "nn" || stored == "nt" || stored == "tn" || stored == "tt";
  require(isRead && isArranged && setBits(key, bits) && !(words >> more),
          "it is not ROWS COLUMNS DEPTH nn|nt|tn|tt 16|32|16to32 WORDS");
  key.isTransposedA = stored[0] == 't';
  key.isTransposedB = stored[1] == 't';
  return {key, GemmForced::parse(choice)};
}

}  // namespace

GemmTable GemmTable::parse(const std::string& text, const std::string& name) {
  GemmTable table;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string content = line.substr(0, line.find('#'));
    if (content.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const auto [key, choice] = entryOf(content);
      table.choices_[key] = choice;
    } catch (const Error& error) {
      fail(ErrorCode::InvalidArgument, name, ":", number, ": \"", line, "\": ", error.what());
    }
  }
  return table;
}

GemmTable GemmTable::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), std::ssize(text));
  require(file.is_open() && !file.bad() && !std::filesystem::is_directory(path),
          "the table of products ", path, " cannot be read");
  text.resize(static_cast<size_t>(file.gcount()));
  require(text.size() <= kMostBytes, "the table of products ", path, " has more than ", kMostBytes,
          " bytes");
  return parse(text, path);
}

const GemmForced* GemmTable::find(const GemmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

std::string lineOf(const GemmKey& key, const GemmChoice& choice) {
  return message(key.rows, " ", key.columns, " ", key.depth, " ", key.isTransposedA ? "t" : "n",
                 key.isTransposedB ? "t" : "n", " ", wordOf(key.bits, key.resultBits), " ",
                 wordsOf(choice));
}

GemmOptions GemmOptions::fromEnvironment() {
  GemmOptions options;
  if (const char* const text = std::getenv("TUTTI_GEMM")) options.forced = GemmForced::parse(text);
  if (const char* const path = std::getenv("TUTTI_GEMM_TABLE"))
    options.table = GemmTable::load(path);
  return options;
}

}  // namespace tutti::parallel::cuda
