// What checkpoints say of themselves. What is taken comes back from what is written of it.
//
// First byte: "S" one rank's description; "M" a manifest; else the content of a manifest, to which
// the target adds a checksum that fits.

#include "parallel/checkpoint/manifest.h"

#include "parallel/checkpoint/hash.h"
#include "parallel/checkpoint/json.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using parallel::Manifest;
using parallel::ShardDescription;

std::string withChecksum(const std::string& content) {
  const std::string plain = parallel::parseJson("content", content).dump();
  return R"({"checkpoint":)" + content + R"(,"xxh128":")" +
         parallel::hash128(plain.data(), plain.size()) + "\"}\n";
}

void run(Input input) {
  const std::string whole = input.text();
  const uint8_t kind = input.byte();
  takes({ErrorCode::InvalidArgument}, [&] {
    if (kind == 'S') {
      const ShardDescription shard = ShardDescription::parse(input.text());
      expect(ShardDescription::parse(shard.serialize()) == shard, "a description comes back");
      return;
    }
    const std::string text = kind == 'M' ? input.text() : withChecksum(whole);
    const Manifest manifest = Manifest::parse("a file", text);
    expect(Manifest::parse("its text", manifest.text()) == manifest, "a manifest comes back");
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
