// All flags of train_gpt, by a file in TOML. Slow: each input defines hundreds of flags.

#include <iostream>

#include "parallel/samples/train_gpt/train_options.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  // What is refused is printed, thousands of times.
  std::cerr.rdbuf(nullptr);
  std::cout.rdbuf(nullptr);
  const fuzz::MemoryFile file(fuzz::Input(data, size).text());
  std::string words[] = {"train_gpt", "--config", file.path()};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data()};
  parallel::TrainOptions options;
  const std::optional<int> exitCode = parallel::parse(3, arguments, options);
  fuzz::expect(!exitCode || *exitCode == 2, "flags are taken or refused");
  return 0;
}
