#include "tests/support/all_reduce_loop.h"

#include <chrono>
#include <vector>

#include <tutti/tutti.h>

#include "src/base/check.h"

namespace tutti::tests {

using namespace std::chrono_literals;

int64_t nowMs() { return std::chrono::steady_clock::now().time_since_epoch() / 1ms; }

void sayEnded(const RankProcesses::Context& context, ErrorCode code, const std::string& text) {
  context.say(base::message("ended ", nowMs(), " ", toString(code), "|", text));
}

int loopAllReduce(const RankProcesses::Context& context, bool goOn, CommunicatorOptions options) {
  options.timeout = 60s;
  options.straggler = 500ms;
  Communicator c = context.join(options);
  std::vector<float> x(1 << 14, 1.0f), y(x.size());
  context.say("joined");
  const auto reduce = [&] { c.allReduce({.send = x.data(), .recv = y.data(), .count = x.size()}); };
  try {
    reduce();
    context.say("reduces");
    while (true) reduce();
  } catch (const Error& e) {
    sayEnded(context, e.code(), e.what());
  }
  if (!goOn) return 0;
  Communicator rest = c.shrink();
  rest.allReduce({.send = x.data(), .recv = y.data(), .count = x.size()});
  context.say(base::message("goes on with ", static_cast<int>(y[0])));
  return 0;
}

int64_t endOfLoop(const std::string& output) {
  const size_t at = output.find("ended ");
  return at == std::string::npos ? INT64_MAX : std::stoll(output.substr(at + 6));
}

}  // namespace tutti::tests
