// Topology files: the clusters of `tutti simulate`.

#include "src/tools/simulate/cluster_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const std::string text = fuzz::Input(data, size).text();
  fuzz::takes({ErrorCode::InvalidArgument}, [&] { tools::parseCluster("a file", text); });
  return 0;
}
