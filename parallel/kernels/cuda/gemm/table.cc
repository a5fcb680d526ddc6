#include "parallel/kernels/cuda/gemm/table.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

GemmTable GemmTable::parse(const std::string& text) {
  GemmTable table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string content = line.substr(0, line.find('#'));
    std::istringstream words(content);
    GemmKey key{};
    std::string stored, choice, more;
    if (content.find_first_not_of(" \t\r") == std::string::npos) continue;
    const bool isRead(words >> key.rows >> key.columns >> key.depth >> stored >> key.bits >>
                      choice);
    const bool isArranged = stored == "nn" || stored == "nt" || stored == "tn" || stored == "tt";
    require(isRead && isArranged && (key.bits == 16 || key.bits == 32) && !(words >> more),
            "a table of products has the line \"", line,
            "\", which is not ROWS COLUMNS DEPTH nn|nt|tn|tt 16|32 WORDS");
    key.isTransposedA = stored[0] == 't';
    key.isTransposedB = stored[1] == 't';
    table.choices_[key] = GemmForced::parse(choice);
  }
  return table;
}

GemmTable GemmTable::load(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  require(file.is_open() && !std::filesystem::is_directory(path), "the table of products ", path,
          " cannot be read");
  return parse(text.str());
}

const GemmForced* GemmTable::find(const GemmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

std::string lineOf(const GemmKey& key, const GemmChoice& choice) {
  return message(key.rows, " ", key.columns, " ", key.depth, " ", key.isTransposedA ? "t" : "n",
                 key.isTransposedB ? "t" : "n", " ", key.bits, " ", wordsOf(choice));
}

GemmOptions GemmOptions::fromEnvironment() {
  GemmOptions options;
  if (const char* const text = std::getenv("TUTTI_GEMM")) options.forced = GemmForced::parse(text);
  if (const char* const path = std::getenv("TUTTI_GEMM_TABLE"))
    options.table = GemmTable::load(path);
  return options;
}

}  // namespace tutti::parallel::cuda
