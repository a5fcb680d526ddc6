// Files of tensors. One that begins with "{" is a header: the target puts its length before it and
// 32 bytes of data behind it.

#include "parallel/checkpoint/safetensors.h"

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

constexpr size_t kDataBytes = 32;
constexpr uint64_t kMostRead = 1 << 20;

base::Bytes fileOf(const Input& input) {
  base::Bytes bytes = input.bytes();
  if (bytes.empty() || bytes.front() != std::byte{'{'}) return bytes;
  base::Bytes file = base::bytesOf(uint64_t{bytes.size()});
  file.insert(file.end(), bytes.begin(), bytes.end());
  file.resize(file.size() + kDataBytes);
  return file;
}

void run(const Input& input) {
  const base::Bytes bytes = fileOf(input);
  const MemoryFile file(bytes);
  takes({ErrorCode::InvalidArgument}, [&] {
    parallel::SafetensorsReader reader(file.path());
    uint64_t data = 0;
    for (const parallel::SafetensorsEntry& entry : reader.entries()) {
      expect(entry.begin <= entry.end && entry.end <= bytes.size(), "tensors lie in their file");
      base::Bytes read(std::min(entry.end - entry.begin, kMostRead));
      reader.read(entry, 0, read.data(), read.size());
      data += entry.end - entry.begin;
    }
    expect(data <= bytes.size(), "no byte is of two tensors");
    const parallel::SafetensorsHeader header{reader.entries(), reader.metadata()};
    const auto again = parallel::parseHeader("its text", parallel::headerText(header), data);
    expect(again.entries == header.entries && again.metadata == header.metadata,
           "a header comes back from its text");
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
