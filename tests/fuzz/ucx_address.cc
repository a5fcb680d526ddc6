// Addresses of the transport `ucx`.
//
// First byte: 0 the rest is the address; else the target puts a digest behind it that fits.

#define XXH_INLINE_ALL
#include "transports/ucx/address.h"

#include <xxhash.h>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  fuzz::Input input(data, size);
  const bool fits = input.byte() != 0;
  base::Bytes bytes = input.bytes();
  if (fits) {
    const base::Bytes digest = base::bytesOf(uint64_t{XXH3_64bits(bytes.data(), bytes.size())});
    bytes.insert(bytes.end(), digest.begin(), digest.end());
  }
  fuzz::takes({ErrorCode::Refused}, [&] {
    const auto blob = transports::ucx::UcxAddressBlob::read(bytes);
    fuzz::expect(blob.worker.size() <= bytes.size(), "an address is made of what has come");
    transports::ucx::UcxAddressBlob::read(blob.write());
  });
  return 0;
}
