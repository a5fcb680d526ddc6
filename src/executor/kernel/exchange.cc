// Sends and receives: the tables of a launch.

#include "src/base/check.h"
#include "src/base/transfer_key.h"
#include "src/executor/kernel/launch.h"

namespace tutti::executor::kernel {
namespace {

/// By peer, in order.
using Queues = std::vector<std::vector<Transfer>>;

Queues byPeer(std::span<const Transfer> transfers, int size, const char* what) {
  Queues queues(static_cast<size_t>(size));
  for (const Transfer& t : transfers) {
    TUTTI_REQUIRE(t.peer >= 0 && t.peer < size, what, ": peer ", t.peer, " is not a rank of 0..",
                  size - 1);
    TUTTI_REQUIRE(t.bytes <= base::kMostTransferBytes, what, " of ", t.bytes, " bytes");
    TUTTI_REQUIRE(t.bytes == 0 || t.data != nullptr, what, " is null with ", t.bytes, " bytes");
    queues[static_cast<size_t>(t.peer)].push_back(t);
  }
  return queues;
}

/// Edges and transfers, as the kernel has them.
struct ExchangeRows {
  std::vector<EdgeCode> edges;
  std::vector<TransferCode> transfers;
  uint32_t mostSlices = 1;
  uint32_t lanes() const { return static_cast<uint32_t>(edges.size()) * mostSlices; }
};

}  // namespace

uint32_t KernelExecutor::mostExchangeSlices() const {
  const auto edges = static_cast<uint32_t>(2 * endpoint_.size() - 1);
  const auto channels = static_cast<uint32_t>(endpoint_.layout().rings.channels);
  return std::clamp(kMostLanesPerBlock * options_.blocks / edges, 1U, channels);
}

// Each slice has at least what one message by LL carries, so that both ends know from the bytes
// alone how many there are.
TransferCode KernelExecutor::sliced(const Transfer& transfer, const void* from, void* to) const {
  const uint64_t bytes = transfer.bytes, least = endpoint_.layout().lowLatencyBytes;
  const auto slices = static_cast<uint32_t>(
      std::clamp<uint64_t>((bytes + least - 1) / least, 1, mostExchangeSlices()));
  return {static_cast<const unsigned char*>(from),
          static_cast<unsigned char*>(to),
          bytes,
          sliceBytes(bytes, slices),
          slices,
          base::upperHalf(transfer.key(slices))};
}

KernelExecutor::Part KernelExecutor::partOf(const KernelExchange& launch) {
  const Exchange& exchange = *launch.exchange;
  const Queues sends = byPeer(exchange.sends, endpoint_.size(), "send");
  const Queues receives = byPeer(exchange.receives, endpoint_.size(), "recv");
  const auto self = static_cast<size_t>(endpoint_.rank());
  requireSelfMatches(exchange, endpoint_.rank());
  ExchangeRows rows;
  const auto begin = [&](EdgeKind kind, size_t peer, size_t transfers) {
    if (transfers > 0)
      rows.edges.push_back({kind, static_cast<int32_t>(peer),
                            static_cast<uint32_t>(rows.transfers.size()),
                            static_cast<uint32_t>(transfers)});
  };
  const auto add = [&](const Transfer& transfer, const void* from, void* to) {
    rows.transfers.push_back(sliced(transfer, from, to));
    rows.mostSlices = std::max(rows.mostSlices, rows.transfers.back().slices);
  };
  // By distance, which both ends of an edge have in common: see runEdges().
  const size_t size = sends.size();
  for (size_t distance = 0; distance < size; ++distance) {
    const size_t to = (self + distance) % size, from = (self + size - distance) % size;
    begin(to == self ? EdgeKind::Self : EdgeKind::Send, to, sends[to].size());
    for (size_t i = 0; i < sends[to].size(); ++i)
      add(sends[to][i], sends[to][i].data, to == self ? receives[to][i].data : nullptr);
    if (to == self) continue;
    begin(EdgeKind::Receive, from, receives[from].size());
    for (const Transfer& t : receives[from]) add(t, nullptr, t.data);
  }
  const uint32_t lanes = std::clamp(rows.lanes(), 1U, kMostLanesPerBlock * options_.blocks);

  LaunchTables::Table table = takeTable(rows.edges.size() * sizeof(EdgeCode) +
                                        rows.transfers.size() * sizeof(TransferCode));
  auto* const edges = table.rows<EdgeCode>(rows.edges.size());
  auto* const transfers = table.rows<TransferCode>(rows.transfers.size());
  std::ranges::copy(rows.edges, edges);
  std::ranges::copy(rows.transfers, transfers);
  const auto& layout = endpoint_.layout();
  RankArguments arguments = commonArguments();
  arguments.links = endpoint_.links(Wire::Simple);
  arguments.tableEnded = table.ended();
  arguments.isReplayed = launch.isCaptured;
  arguments.exchange = {.edges = edges,
                        .transfers = transfers,
                        .quickLinks = endpoint_.links(Wire::LL),
                        .edgeCount = static_cast<uint32_t>(rows.edges.size()),
                        .mostSlices = rows.mostSlices,
                        .quickBytes = static_cast<uint32_t>(layout.lowLatencyBytes),
                        .slotBytes = static_cast<uint32_t>(layout.rings.slotBytes),
                        .quickStride = slotStride(Wire::LL, layout.lowLatencyBytes)};
  return {this, arguments, lanes, 2, 0, std::move(table)};
}

void KernelExecutor::launchExchanges(std::span<const KernelExchange> ranks, cudaStream_t stream) {
  std::vector<KernelExecutor*> executors;
  for (const KernelExchange& rank : ranks) executors.push_back(rank.executor);
  requireJoinable(executors);
  std::vector<Part> parts;
  for (const KernelExchange& rank : ranks) parts.push_back(rank.executor->partOf(rank));
  enqueue(
      std::move(parts), Wire::Simple,
      [&](const Grid& grid, const Arguments& all) { return launchExchange(grid, all, stream); },
      stream);
}

}  // namespace tutti::executor::kernel
