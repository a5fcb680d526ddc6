// Token files.
//
// First byte: 0 the rest is the file; else the target sets its checksums to such that fit.

#include "parallel/data/token_file.h"

#include <cstring>

#include "parallel/checkpoint/hash.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

// Of the format, see token_file.h.
constexpr size_t kHeaderBytes = 128, kChecksumAt = 96, kDigits = 32;

/// Of a file whose ids are one block.
void setChecksums(base::Bytes& bytes) {
  if (bytes.size() < kHeaderBytes + kDigits) return;
  const size_t tableAt = bytes.size() - kDigits;
  const std::string block = parallel::hash128(bytes.data() + kHeaderBytes, tableAt - kHeaderBytes);
  std::memcpy(bytes.data() + tableAt, block.data(), kDigits);
  parallel::Hash128 hash;
  hash.add(bytes.data(), kChecksumAt);
  hash.add(bytes.data() + tableAt, kDigits);
  std::memcpy(bytes.data() + kChecksumAt, hash.digits().data(), kDigits);
}

void run(Input input) {
  const bool fits = input.byte() != 0;
  base::Bytes bytes = input.bytes();
  if (fits) setChecksums(bytes);
  const MemoryFile file(bytes);
  takes({ErrorCode::InvalidArgument}, [&] {
    const parallel::TokenFile tokens(file.path());
    expect(tokens.size() > 0 && static_cast<size_t>(tokens.size()) <= bytes.size() / 2,
           "ids lie in their file");
    std::vector<int32_t> ids(static_cast<size_t>(tokens.size()));
    tokens.read(0, tokens.size(), ids.data());
    for (const int32_t id : ids)
      expect(id >= 0 && id < tokens.facts().vocabulary, "ids are of the vocabulary");
    tokens.verify();
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
