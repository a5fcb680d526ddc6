// Tuning tables: the text of a file, and the bytes that rank 0 hands out. What is taken comes back
// from what is written of it.

#include "src/topology/tuning.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  using topology::Tuning;
  const fuzz::Input input(data, size);
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    const Tuning tuning = Tuning::parse(input.text(), "a file");
    fuzz::expect(Tuning::parse(tuning.text(), "its text") == tuning, "a table has its text");
    fuzz::expect(Tuning::deserialize(tuning.serialize()) == tuning, "a table has its bytes");
  });
  fuzz::takes({ErrorCode::Refused}, [&] {
    const base::Bytes bytes = input.bytes();
    fuzz::expect(Tuning::deserialize(bytes).serialize() == bytes, "a table has one spelling");
  });
  return 0;
}
