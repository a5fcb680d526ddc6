#include "src/communicator/gpu/gpu_work.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/gpu/gpu_batches.h"
#include "src/communicator/gpu/shared_streams.h"

namespace tutti::communicator {
namespace {

/// To those of the calls before it on its stream.
void addParts(const GpuWork& work, std::vector<SharedStreams::Part>& parts) {
  const GpuBackend& c = *work.backend;
  const int rank = c.who().rank();
  if (!work.exchange()) {
    uint64_t number = c.collectivesLaunched() + 1;
    for (const SharedStreams::Part& part : parts)
      number += part.line == kCollectives && part.rank == rank;
    parts.push_back({kCollectives, rank, number, number});
    return;
  }
  for (const auto& [line, count] : messagesOf(*work.exchange(), rank)) {
    const uint64_t before = c.messagesLaunched(line);
    parts.push_back({line, rank, before + 1, before + count});
  }
}

/// Of a launch's calls, all that are on one of its streams; `one` is among them. The capture that
/// the stream is in, as StreamIdentity has it.
uint64_t requireApart(const GpuBatch& batch, const GpuWork& one, StreamRef on) {
  std::vector<SharedStreams::Part> parts;
  for (const GpuWork& work : batch.works)
    if (isOn(work, on)) addParts(work, parts);
  const StreamIdentity stream = one.backend->rank()->identityOf(on);
  const int other = SharedStreams::ofProcess().launch(batch.group, stream, parts);
  if (other < 0) return stream.capture;
  const std::string call = std::visit([](const auto& its) { return its.describe(); }, one.facts());
  base::fail(ErrorCode::InvalidUsage, one.backend->who().self(), " and rank ", other,
             " of the same communicator call ", call,
             " on one stream, one after the other, and would wait for each other: their calls have "
             "to be in one group");
}

/// Of each call the capture that its streams are in.
std::vector<uint64_t> capturesOf(const GpuBatch& batch) {
  std::vector<std::pair<StreamRef, uint64_t>> known;
  const auto captureOf = [&](const GpuWork& work, StreamRef stream) {
    for (const auto& [other, capture] : known)
      if (areOne(other, stream)) return capture;
    return known.emplace_back(stream, requireApart(batch, work, stream)).second;
  };
  std::vector<uint64_t> captures;
  for (const GpuWork& work : batch.works) {
    captures.push_back(captureOf(work, work.stream));
    for (const StreamRef joined : work.joined)
      if (captureOf(work, joined) != captures.back())
        base::fail(
            ErrorCode::InvalidUsage, work.backend->who().self(),
            ": of the streams of a group's calls one is captured, and another one not, or into "
            "another graph");
  }
  return captures;
}

void launch(const GpuBatch& batch) {
  const std::vector<uint64_t> captures = capturesOf(batch);
  std::vector<RankLaunch> launches;
  for (const GpuWork& work : batch.works) {
    GpuBackend& c = *work.backend;
    c.failure().throwIfFailed();
    const uint64_t capture = captures[launches.size()];
    c.launching(work,
                static_cast<uint64_t>(std::ranges::count(launches, c.rank(), &RankLaunch::rank)),
                capture != 0);
    launches.push_back(launchOf(work, capture));
  }
  launchOnGpu(launches);
}

/// Why a batch could not be launched. A communicator that fails aborts its kernels, also between
/// the last look at it and the launch, which then says no more than that: why it has failed, does.
Error reasonOf(const GpuBatch& batch, const Error& error) {
  for (const GpuWork& work : batch.works)
    if (const auto reason = work.backend->failure().reason()) return *reason;
  return error;
}

}  // namespace

// What cannot be launched fails its communicators, for other ranks may have launched their part;
// the calls of others go on. Whoever waits for his calls hears of it when none touches his memory.
void launch(std::vector<GpuWork> works) {
  std::vector<std::shared_ptr<GpuBackend>> waiting;
  for (const GpuWork& work : works)
    if (!work.stream) waiting.push_back(work.backend);
  std::exception_ptr first;
  joinStreams(works);
  for (const GpuBatch& batch : batchesOf(std::move(works))) {
    try {
      launch(batch);
    } catch (const Error& error) {
      const Error reason = reasonOf(batch, error);
      for (const GpuWork& work : batch.works) work.backend->failure().fail(reason, true);
      if (!first) first = std::make_exception_ptr(reason);
    }
  }
  if (!first) return;
  for (const auto& backend : waiting) {
    try {
      backend->awaitIdle();
    } catch (const Error& error) {  // the first one is what the caller has to know
      base::log(LogLevel::Error, backend->who().self(), " cannot wait for its GPU: ", error.what());
    }
  }
  std::rethrow_exception(first);
}

}  // namespace tutti::communicator
