// Records of `tutti tune`: a line of JSON a call. What is taken comes back from what is written.

#include "src/tools/tune/tune_record.h"

#include <sstream>

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

std::string rewritten(const std::string& text) {
  std::istringstream lines(text);
  std::string written;
  for (const tools::Verdict& verdict : tools::readRecord(lines, "a file"))
    written += tools::jsonOf(verdict);
  return written;
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const std::string text = fuzz::Input(data, size).text();
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    const std::string once = fuzz::rewritten(text);
    fuzz::expect(fuzz::rewritten(once) == once, "a record comes back");
  });
  return 0;
}
