#include "parallel/nn/expert_parallel.h"

#include <algorithm>
#include <numeric>

namespace tutti::parallel {

void requireExpertsFit(const MeshShape& shape, int64_t experts) {
  const int64_t ranks = shape[Axis::Expert];
  if (experts % ranks == 0) return;
  int64_t below = std::min(ranks, experts), above = below;
  while (experts % below != 0) --below;  // 1 does
  while (experts % above != 0) ++above;  // `experts` does
  fail(ErrorCode::InvalidArgument, experts, " experts cannot be dealt out to ", ranks,
       " ranks along ep: ",
       below == above ? message(below, " would do") : message(below, " or ", above, " would do"));
}

ExpertParallel::ExpertParallel(DeviceMesh& mesh)
    : mesh_(mesh), group_(mesh.communicator({Axis::Expert})), ranks_(mesh.extent(Axis::Expert)) {}

/// Of rows for all experts, and of rows of all ranks for this rank's.
ExpertTraffic ExpertParallel::trafficOf(std::span<const int32_t> to,
                                        std::span<const int32_t> from) const {
  ExpertTraffic traffic;
  const size_t here = to.size() / static_cast<size_t>(ranks_);
  std::vector<int64_t> sums(here, 0);
  for (size_t rank = 0; rank < static_cast<size_t>(ranks_); ++rank) {
    traffic.fromRank.emplace_back();
    int64_t sent = 0, received = 0;
    for (size_t e = 0; e < here; ++e) {
      const int64_t rows = from[rank * here + e];
      traffic.fromRank.back().push_back(rows);
      sums[e] += rows;
      sent += to[rank * here + e];
      received += rows;
    }
    traffic.sent.push_back(static_cast<size_t>(sent));
    traffic.received.push_back(static_cast<size_t>(received));
    traffic.sentRows += sent;
    traffic.receivedRows += received;
  }
  for (int64_t begin = 0; const int64_t rows : sums) {
    traffic.experts.push_back({begin, begin + rows});
    begin += rows;
  }
  return traffic;
}

ExpertTraffic ExpertParallel::announce(std::span<const int64_t> loads, const Tensor& counts) {
  const size_t here = loads.size() / static_cast<size_t>(ranks_);
  std::vector<int32_t> both;  // to, and from
  for (int side = 0; side < 2; ++side)
    for (const int64_t load : loads) both.push_back(static_cast<int32_t>(load));
  if (group_ != nullptr) {
    group_->allToAll(Purpose::ExpertCounts, {.send = both.data(),
                                             .recv = both.data() + loads.size(),
                                             .count = here,
                                             .type = DType::Int32});
    counters.allToAll.add(loads.size() * sizeof(int32_t));
  }
  mesh_.upload(both.data(), counts);
  const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
  return trafficOf(counts, all, all);
}

std::vector<int32_t> ExpertParallel::countsIn(const Tensor& counts) const {
  std::vector<int32_t> both(static_cast<size_t>(counts.count()));
  mesh_.download(counts, both.data());
  return both;
}

ExpertTraffic ExpertParallel::trafficOf(const Tensor& counts, int64_t sentRows,
                                        int64_t receivedRows) const {
  const auto experts = static_cast<size_t>(counts.shape[1]);
  if (!mesh_.dry()) {
    const std::vector<int32_t> both = countsIn(counts);
    return trafficOf(std::span(both).first(experts), std::span(both).subspan(experts));
  }
  std::vector<int32_t> to, from;
  for (int e = 0; e < static_cast<int>(experts); ++e) {
    to.push_back(static_cast<int32_t>(partOf(sentRows, static_cast<int>(experts), e).count()));
    from.push_back(
        static_cast<int32_t>(partOf(receivedRows, static_cast<int>(experts), e).count()));
  }
  return trafficOf(to, from);
}

namespace {

std::vector<size_t> times(const std::vector<size_t>& rows, int64_t width) {
  std::vector<size_t> elements;
  for (const size_t count : rows) elements.push_back(count * static_cast<size_t>(width));
  return elements;
}

}  // namespace

/// From blocks of each rank, in which rows are by expert, to all by expert; or `back`.
void ExpertParallel::regroup(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& byRank,
                             const Tensor& byExpert, bool back) const {
  std::vector<int64_t> next;
  for (const Range& rows : traffic.experts) next.push_back(rows.begin);
  int64_t at = 0;
  for (const auto& rows : traffic.fromRank)
    for (size_t e = 0; e < rows.size(); ++e) {
      const Tensor ofRank = byRank.rows(at, rows[e]), ofExpert = byExpert.rows(next[e], rows[e]);
      if (back)
        kernels.copy(ofExpert, ofRank);
      else
        kernels.copy(ofRank, ofExpert);
      at += rows[e];
      next[e] += rows[e];
    }
}

void ExpertParallel::send(Purpose purpose, const Tensor& rows, const std::vector<size_t>& to,
                          const Tensor& result, const std::vector<size_t>& from) {
  const auto sent = times(to, rows.shape[1]), received = times(from, rows.shape[1]);
  group_->allToAllV(purpose, {.send = rows.data,
                              .sendCounts = sent,
                              .sendOffsets = {},
                              .recv = result.data,
                              .recvCounts = received,
                              .recvOffsets = {},
                              .type = rows.type});
  counters.allToAll.add(std::max(rows.bytes(), result.bytes()));
}

Tensor ExpertParallel::toExperts(Purpose purpose, Kernels& kernels, const ExpertTraffic& traffic,
                                 const Tensor& rows, Arena& memory, Arena& scratch) {
  if (ranks_ == 1) return rows;
  const auto room = [&](Arena& arena) {
    return allocateRows(arena, rows.type, traffic.receivedRoom, traffic.receivedRows,
                        rows.shape[1]);
  };
  const Tensor result = room(memory);
  const ArenaScope scope(scratch);
  const Tensor arrived = room(scratch);
  send(purpose, rows, traffic.sent, arrived, traffic.received);
  regroup(kernels, traffic, arrived, result, false);
  return result;
}

Tensor ExpertParallel::fromExperts(Purpose purpose, Kernels& kernels, const ExpertTraffic& traffic,
                                   const Tensor& rows, Arena& memory, Arena& scratch) {
  if (ranks_ == 1) return rows;
  const int64_t width = rows.shape[1];
  const Tensor result = allocateRows(memory, rows.type, traffic.sentRoom, traffic.sentRows, width);
  const ArenaScope scope(scratch);
  const Tensor leaving =
      allocateRows(scratch, rows.type, traffic.receivedRoom, traffic.receivedRows, width);
  regroup(kernels, traffic, leaving, rows, true);
  send(purpose, leaving, traffic.received, result, traffic.sent);
  return result;
}

}  // namespace tutti::parallel
