#pragma once

// What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(): it hands bytes
// from outside to one parser. The parser takes them, or refuses them with an Error of the codes
// that it documents. Anything else ends the process: another code or exception, a false expect(),
// what the sanitizers see, too much memory, too much time.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <tutti/error.h>
#include <tutti/log.h>

#include "src/base/bytes.h"
#include "src/base/file_descriptor.h"

/// What libFuzzer and corpus_test.cc call; each target defines it. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tutti::fuzz {

/// Ends the process where something does not hold that holds for every input.
inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::abort();
}

/// Whether a parser takes its input. It may refuse it with these codes.
template <class Parse>
bool takes(std::initializer_list<ErrorCode> refusals, const Parse& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    const bool known = std::find(refusals.begin(), refusals.end(), error.code()) != refusals.end();
    expect(known, std::string("this is no refusal: ") + error.what());
    expect(!std::string_view(error.what()).empty(), "a refusal says why");
    return false;
  }
}

/// The input of a target, from which it takes a few bytes for its own choices.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(std::as_bytes(std::span(data, size))) {}
  /// 0 where nothing is left.
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  /// The next `count` bytes, or as many as there are.
  base::Bytes some(size_t count) {
    const auto part = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return {part.begin(), part.end()};
  }
  bool empty() const { return rest_.empty(); }
  base::Bytes bytes() const { return {rest_.begin(), rest_.end()}; }
  std::string text() const { return {reinterpret_cast<const char*>(rest_.data()), rest_.size()}; }
  /// `good` with the rest of the input laid over it by exclusive or: zeros change nothing.
  base::Bytes over(base::Bytes good) const {
    for (size_t i = 0; i < good.size() && i < rest_.size(); ++i) good[i] ^= rest_[i];
    return good;
  }

 private:
  std::span<const std::byte> rest_;
};

/// A file in memory, for parsers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes)
      : file_(::memfd_create("tutti-fuzz", MFD_CLOEXEC)) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    expect(written == static_cast<ssize_t>(bytes.size()), "a file in memory takes its bytes");
  }
  explicit MemoryFile(std::string_view text) : MemoryFile(std::as_bytes(std::span(text))) {}
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  base::FileDescriptor file_;
};

/// What the library logs goes nowhere: a static object of a target whose parser logs.
struct Silence {
  Silence() {
    setLogSink([](LogLevel, std::string_view) {});
  }
};

}  // namespace tutti::fuzz
