#include "parallel/data/token_data.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "parallel/data/mapped_file.h"
#include "parallel/data/token_file.h"
#include "parallel/tensor/check.h"
#include "parallel/tokenizer/utf8.h"

namespace tutti::parallel {

namespace {

std::string readRegularFile(const std::string& name, const std::string& path) {
  requireRegular(name, path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  require(file != nullptr, name, " cannot be opened: ", std::strerror(errno));
  std::error_code unknown;
  return inMemory(name, std::filesystem::file_size(path, unknown), [&] {
    std::string bytes, part(size_t{1} << 20, '\0');
    while (const size_t n = std::fread(part.data(), 1, part.size(), file.get()))
      bytes.append(part, 0, n);
    require(!std::ferror(file.get()), name, " cannot be read: ", std::strerror(errno));
    return bytes;
  });
}

TokenData splitOff(const std::string& name, const char* unit, const TokenView& tokens,
                   int64_t context) {
  const int64_t all = tokens.size(), split = all - all / 20;
  TokenData data{tokens.part(0, split), tokens.part(split, all)};
  const auto window = static_cast<uint64_t>(context);  // 20/19 of the largest context fit in it
  require(data.train.size() > context && data.validation.size() > 1, name, " has ", all, " ", unit,
          ", too few for a context of ", context, ": at least ",
          std::max<uint64_t>(40, window + window / 19 + 2), " are needed");
  return data;
}

}  // namespace

void requireText(const std::string& name, std::string_view bytes) {
  require(!bytes.empty(), name, " is empty");
  const size_t zero = bytes.find('\0');
  require(zero == bytes.npos, name, ": byte ", zero, " is 0: this is binary data, and no text");
}

TokenData readTextTokens(const std::string& path, const Tokenizer& tokenizer, int64_t context) {
  const std::string name = "the text " + path;
  return splitText(name, readRegularFile(name, path), tokenizer, context);
}

TokenData splitText(const std::string& name, const std::string& text, const Tokenizer& tokenizer,
                    int64_t context) {
  requireText(name, text);
  const bool bytes = tokenizer.fingerprint() == "bytes";  // a quarter of the memory
  if (!bytes) requireUtf8(name, text);
  const TokenView tokens = inMemory(name, text.size(), [&] {
    return bytes ? TokenView::owning(std::vector<uint8_t>(text.begin(), text.end()))
                 : TokenView::owning(tokenizer.encode(text));
  });
  return splitOff(name, bytes ? "bytes" : "tokens", tokens, context);
}

TokenData readTokenFile(const std::string& path, int64_t context) {
  const TokenView tokens(std::make_shared<TokenFile>(path));
  return splitOff("the token file " + path, "tokens", tokens, context);
}

}  // namespace tutti::parallel
