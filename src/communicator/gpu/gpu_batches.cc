#include "src/communicator/gpu/gpu_batches.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "src/communicator/gpu/gpu_backend.h"

namespace tutti::communicator {

bool areOne(StreamRef stream, StreamRef other) {
  return stream.cuda() == other.cuda() && stream.device() == other.device();
}

bool isOn(const GpuWork& work, StreamRef stream) {
  return areOne(work.stream, stream) ||
         std::ranges::any_of(work.joined, [&](StreamRef joined) { return areOne(joined, stream); });
}

void joinStreams(std::vector<GpuWork>& works) {
  for (GpuWork& work : works) {
    const auto join = [&](StreamRef stream) {
      if (!isOn(work, stream)) work.joined.push_back(stream);
    };
    if (!work.stream) continue;
    for (const GpuWork& other : works) {
      if (!other.stream || other.backend != work.backend) continue;
      join(other.stream);
      std::ranges::for_each(other.joined, join);
    }
  }
}

RankLaunch launchOf(const GpuWork& work, uint64_t capture) {
  GpuRank& rank = *work.backend->rank();
  return {.rank = &rank,
          .operation = {.executor = &rank.executor(),
                        .plan = work.plan,
                        .call = work.call(),
                        .exchange = work.exchange(),
                        .stream = work.stream,
                        .isCaptured = capture != 0,
                        .slices = work.slices},
          .capture = capture,
          .joined = work.joined};
}

namespace {

bool shareAStream(const GpuWork& one, const GpuWork& another) {
  return isOn(one, another.stream) ||
         std::ranges::any_of(another.joined, [&](StreamRef joined) { return isOn(one, joined); });
}

// Those by copies whatever their streams: one after the other they could fill these.
bool belongs(const GpuBatch& batch, const GpuWork& work, size_t turn) {
  const GpuWork& first = batch.works.front();
  const GpuFacts& facts = work.backend->rank()->facts();
  if (!first.exchange() != !work.exchange()) return false;
  if (batch.turn != turn || batch.group != facts.group) return false;
  if (facts.byCopies) return true;
  if (!work.stream) return batch.waits && first.stream.device() == work.backend->device();
  return !batch.waits && std::ranges::any_of(batch.works, [&](const GpuWork& other) {
    return shareAStream(other, work);
  });
}

/// A launch is on one stream, and joined by the others.
void launchOn(StreamRef stream, GpuWork& work) {
  if (areOne(work.stream, stream)) return;
  work.joined.push_back(std::exchange(work.stream, stream));
  std::erase_if(work.joined, [&](StreamRef joined) { return areOne(joined, stream); });
}

/// Who brings none has that of a kernel which it shares, or its own.
StreamRef streamFor(const GpuWork& work, const GpuBatch* batch) {
  if (work.stream) return work.stream;
  GpuRank& gpu = *work.backend->rank();
  return batch && !gpu.facts().byCopies ? batch->works.front().stream : gpu.ownStream();
}

/// Of several communicators on one stream the one that was named first goes first, for all ranks
/// alike: else a rank's call could wait behind another communicator's for a rank that has it the
/// other way round.
void sortByTurn(std::vector<GpuBatch>& batches) {
  std::map<uint64_t, size_t> places;  // of communicators, by their first batch
  for (const GpuBatch& batch : batches) places.try_emplace(batch.group, places.size());
  std::ranges::stable_sort(batches, {}, [&](const GpuBatch& batch) {
    return std::pair(batch.turn, places.at(batch.group));
  });
}

/// In one launch. A rank whose call before is not in that one would have it wait for another, which
/// may wait for it.
bool mayFollow(const GpuBatch& batch, const GpuBatch& next) {
  std::vector<executor::GpuLaunch> launches;
  for (const GpuWork& work : batch.works) launches.push_back(launchOf(work).operation);
  return std::ranges::all_of(next.works, [&](const GpuWork& work) {
    const bool isBehindItsOwn =
        std::ranges::find(batch.works, work.backend, &GpuWork::backend) != batch.works.end();
    launches.push_back(launchOf(work).operation);
    const auto before = std::span(launches).first(launches.size() - 1);
    return isBehindItsOwn && launches.back().executor->mayFollow(before, launches.back());
  });
}

/// Whether one has to be launched after the other: they have a rank or a stream in common.
bool areOrdered(const GpuBatch& batch, const GpuBatch& other) {
  return std::ranges::any_of(batch.works, [&](const GpuWork& one) {
    return std::ranges::any_of(other.works, [&](const GpuWork& another) {
      return one.backend == another.backend || shareAStream(one, another);
    });
  });
}

/// What may be in the launch of the batch that it has to come after, is. Past another
/// communicator's nothing is moved: their order is the same for all ranks, whoever joins what.
void joinTurns(std::vector<GpuBatch>& batches) {
  std::vector<GpuBatch> joined;
  for (GpuBatch& batch : batches) {
    const auto isBound = [&](const GpuBatch& other) {
      return other.group != batch.group || areOrdered(other, batch);
    };
    const auto before = std::find_if(joined.rbegin(), joined.rend(), isBound);
    if (before != joined.rend() && before->group == batch.group && mayFollow(*before, batch))
      std::ranges::move(batch.works, std::back_inserter(before->works));
    else
      joined.push_back(std::move(batch));
  }
  batches = std::move(joined);
}

}  // namespace

std::vector<GpuBatch> batchesOf(std::vector<GpuWork> works) {
  std::vector<GpuBatch> batches;
  std::map<const GpuBackend*, size_t> turns;
  for (GpuWork& work : works) {
    const size_t turn = turns[work.backend.get()]++;
    const auto mine = std::ranges::find_if(
        batches, [&](const GpuBatch& batch) { return belongs(batch, work, turn); });
    const bool waits = !work.stream;
    work.stream = streamFor(work, mine != batches.end() ? &*mine : nullptr);
    if (mine != batches.end()) {
      if (!work.backend->rank()->facts().byCopies) launchOn(mine->works.front().stream, work);
      mine->works.push_back(std::move(work));
      continue;
    }
    GpuBatch batch{work.backend->rank()->facts().group, turn, waits, {}};
    batch.works.push_back(std::move(work));
    batches.push_back(std::move(batch));
  }
  sortByTurn(batches);
  joinTurns(batches);
  return batches;
}

}  // namespace tutti::communicator
