#include "src/communicator/settings.h"

#include <algorithm>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/env.h"
#include "src/base/known_variables.h"
#include "src/communicator/endpoints.h"

namespace tutti::communicator {

topology::Tuning ownTuning() {
  const std::string& file = base::env().tuning;
  if (file.empty()) return {};
  return collectives::readTuning(file);
}

std::shared_ptr<const collectives::AlgorithmFile> ownAlgorithmFile(const std::string& path) {
  const std::string& file = path.empty() ? base::env().algorithmFile : path;
  return file.empty() ? nullptr : collectives::AlgorithmFile::read(file);
}

int64_t setupTimeoutOf(const CommunicatorOptions& options) {
  const int64_t given = options.setupTimeout.count();
  return std::min<int64_t>(given > 0 ? given : base::lenientEnv().setupTimeoutMs,
                           base::kLongestWait.count());
}

Settings Settings::from(const CommunicatorOptions& options) {
  base::warnOfUnknownVariables();
  const base::Env& env = base::env();
  TUTTI_REQUIRE(options.timeout.count() >= 0 && options.setupTimeout.count() >= 0 &&
                    options.straggler.count() >= 0,
                "timeouts are not negative: timeout ", options.timeout.count(), " ms, set-up ",
                options.setupTimeout.count(), " ms, straggler ", options.straggler.count(), " ms");
  TUTTI_REQUIRE(options.gpuBlocks >= 0, "gpuBlocks is ", options.gpuBlocks, ", not 0 or more");
  TUTTI_REQUIRE(options.signals >= 1 && options.signals <= kMostSignals, "signals is ",
                options.signals, ", not 1 to ", kMostSignals);
  const auto choose = [](int64_t given, int64_t fallback) {
    return std::min<int64_t>(given ? given : fallback, base::kLongestWait.count());
  };
  const std::string& transport = options.transport.empty() ? env.transport : options.transport;
  requireTransport(transport);
  return {.setupTimeoutMs = setupTimeoutOf(options),
          .timeoutMs = choose(options.timeout.count(), env.timeoutMs),
          .stragglerMs = choose(options.straggler.count(), env.stragglerMs),
          .deterministic = options.deterministic || env.deterministic,
          .algorithm = options.algorithm.empty() ? env.algorithm : options.algorithm,
          .transport = transport,
          .device = options.device,
          .gpuBlocks = static_cast<uint32_t>(options.gpuBlocks ? options.gpuBlocks : env.gpuBlocks),
          .gpuCopies = options.gpuCopies || env.gpuCopies,
          .gpuDirect = env.gpuDirect,
          .encrypts = options.encryption.value_or(env.encryption),
          .preSharedKey = options.preSharedKey,
          .tcpStreams = static_cast<uint32_t>(env.tcpStreams),
          .reconnectMs = env.reconnectMs,
          .trafficClass = static_cast<int>(env.trafficClass),
          .signals = static_cast<uint32_t>(options.signals)};
}

}  // namespace tutti::communicator
