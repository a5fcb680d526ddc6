// Configurations of DeepSpeed.
//
// First byte: how many ranks the training has.

#include "parallel/samples/options/deepspeed_config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  fuzz::Input input(data, size);
  const int ranks = 1 + input.byte();
  const fuzz::MemoryFile file(input.text());
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    const parallel::DeepSpeedConfig config = parallel::readDeepSpeedConfig(file.path());
    fuzz::expect(config.makeOptimizer() != nullptr, "a configuration has an optimizer");
    if (config.trainBatch + config.microBatch == 0) return;
    const parallel::DeepSpeedBatch batch = parallel::batchOn(config, ranks);
    fuzz::expect(batch.sequences > 0 && batch.microBatches > 0, "a batch is none of nothing");
  });
  return 0;
}
