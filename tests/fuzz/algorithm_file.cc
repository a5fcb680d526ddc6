// Plans from files: JSON of specs and programs, which the checker then proves. What is taken comes
// back from what is written.

#include "collectives/algorithm_file.h"
#include "src/plan/json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const std::string text = fuzz::Input(data, size).text();
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    const collectives::AlgorithmFile file("a file", text);
    const std::string written = plan::toJson(file.spec(), file.programs());
    const collectives::AlgorithmFile again("another file", written);
    fuzz::expect(again.digest() == file.digest() && again.programs() == file.programs(),
                 "a plan comes back");
  });
  return 0;
}
