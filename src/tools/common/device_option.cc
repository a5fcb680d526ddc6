#include "src/tools/common/device_option.h"

#include "src/base/check.h"
#include "src/device/cuda.h"
#include "src/tools/common/names.h"

namespace tutti::tools {

void requireDeviceWord(const std::string& word) {
  if (word == "host") return;
  requireName("--device", word, {"host", "cuda", "emulated"});
  const bool emulated = device::cudaSupport().emulated;
  TUTTI_REQUIRE(
      word != "emulated" || emulated,
      "--device emulated: this program has no emulated GPUs; those of build/tests/emulated "
      "have, in a build with tests and CUDA");
  TUTTI_REQUIRE(word != "cuda" || !emulated,
                "--device cuda: this program runs on emulated GPUs alone: --device emulated");
}

Device deviceFor(const std::string& word, int rank) {
  requireDeviceWord(word);
  if (word == "host") return {};
  const int count = deviceCount(DeviceKind::Cuda);
  if (count == 0)
    base::fail(ErrorCode::Unsupported, "--device ", word, ": ", whyNoDevice(DeviceKind::Cuda),
               "; --device host needs none");
  return {DeviceKind::Cuda, rank % count};
}

}  // namespace tutti::tools
