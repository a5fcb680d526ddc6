// Addresses of the transport `tcp`.
//
// First byte: 0 the rest is the address; else the target puts a digest behind it that fits.

#include "transports/tcp/address.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  using transports::tcp::TcpAddressBlob;
  fuzz::Input input(data, size);
  const bool fits = input.byte() != 0;
  base::Bytes bytes = input.bytes();
  if (fits) {
    wire::Key digest;
    wire::digestInto(digest, "tcp address", bytes);
    bytes.insert(bytes.end(), digest.begin(), digest.end());
  }
  fuzz::takes({ErrorCode::Refused}, [&] {
    const TcpAddressBlob blob = TcpAddressBlob::read(bytes);
    const base::Bytes written = blob.write();
    fuzz::expect(TcpAddressBlob::read(written).write() == written, "an address comes back");
  });
  return 0;
}
