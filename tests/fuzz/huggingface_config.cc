// config.json of a Hugging Face folder. What is taken comes back from what is written of it.

#include "parallel/huggingface/config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const std::string text = fuzz::Input(data, size).text();
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    const parallel::ModelOptions options = parallel::parseConfig("a file", text);
    const std::string once = parallel::configText(options, parallel::DType::Float32);
    const std::string twice =
        parallel::configText(parallel::parseConfig("its text", once), parallel::DType::Float32);
    fuzz::expect(once == twice, "a configuration comes back");
  });
  return 0;
}
