// What the rendezvous and a rank say to each other. What is taken has one meaning: the same bytes.

#include "src/bootstrap/wire/setup_message.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const base::Bytes bytes = fuzz::Input(data, size).bytes();
  fuzz::takes({ErrorCode::Refused}, [&] {
    const bootstrap::SetupMessage message = bootstrap::decodeSetupMessage(bytes);
    fuzz::expect(bootstrap::encode(message) == bytes, "a message has one spelling");
  });
  return 0;
}
