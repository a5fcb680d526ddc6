// Unique ids, as bytes and as text. What is taken has one meaning: the same bytes.
//
// First byte: 0 the rest is text; 1 its 128 bytes; 2 the same, with a version and a checksum that
// fit.

#include <cstring>

#include "src/bootstrap/rendezvous.h"
#include "src/wire/handshake.h"
#include "src/wire/secrets.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

constexpr size_t kVersionAt = 8, kChecksumAt = 112, kChecksumBytes = 16;

void makeFit(base::Bytes& bytes) {
  std::memcpy(bytes.data() + kVersionAt, &wire::kProtocolVersion, sizeof wire::kProtocolVersion);
  wire::digestInto(std::span(bytes).subspan(kChecksumAt, kChecksumBytes), "unique id",
                   std::span(bytes).first(kChecksumAt));
}

void run(Input input) {
  const uint8_t choice = input.byte() % 3;
  if (choice == 0) {
    takes({ErrorCode::InvalidArgument}, [text = input.text()] {
      expect(UniqueId::fromHex(UniqueId::fromHex(text).toHex()) == UniqueId::fromHex(text),
             "an id comes back from its text");
    });
    return;
  }
  UniqueId id;
  base::Bytes bytes = input.bytes();
  bytes.resize(id.bytes.size());
  if (choice == 2) makeFit(bytes);
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  takes({ErrorCode::InvalidArgument}, [&] {
    const bootstrap::Rendezvous point = bootstrap::decode(id);
    expect(bootstrap::encode(point) == id, "an id has one spelling");
    expect(!bootstrap::describeAddresses(point).empty(), "its addresses have names");
  });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
