// Sends and receives: the tables of a launch.

#include "src/base/check.h"
#include "src/base/transfer_key.h"
#include "src/executor/kernel/launch.h"

namespace tutti::executor::kernel {
namespace {

/// By peer, in order.
using Queues = std::vector<std::vector<DeviceTransfer>>;

Queues byPeer(std::span<const DeviceTransfer> transfers, int size, const char* what) {
  Queues queues(static_cast<size_t>(size));
  for (const DeviceTransfer& t : transfers) {
    TUTTI_REQUIRE(t.peer >= 0 && t.peer < size, what, ": peer ", t.peer, " is not a rank of 0..",
                  size - 1);
    TUTTI_REQUIRE(t.bytes <= base::kMostTransferBytes, what, " of ", t.bytes, " bytes");
    TUTTI_REQUIRE(t.bytes == 0 || t.data != nullptr, what, " is null with ", t.bytes, " bytes");
    queues[static_cast<size_t>(t.peer)].push_back(t);
  }
  return queues;
}

uint64_t keyOf(const DeviceTransfer& transfer, uint32_t slices = 0) {
  return base::transferKey(transfer.type, transfer.bytes, slices);
}

void requireSelfMatches(int rank, std::span<const DeviceTransfer> sends,
                        std::span<const DeviceTransfer> receives) {
  if (sends.size() != receives.size())
    base::fail(ErrorCode::InvalidUsage, "rank ", rank, " has ", sends.size(),
               " sends to itself and ", receives.size(),
               " receives from itself in one group; they match in order");
  for (size_t i = 0; i < sends.size(); ++i)
    if (keyOf(sends[i]) != keyOf(receives[i]))
      base::fail(ErrorCode::InvalidUsage, "rank ", rank, " sends ",
                 base::describeTransfer(keyOf(sends[i])), " to itself and receives ",
                 base::describeTransfer(keyOf(receives[i])));
}

/// Edges and transfers, as the kernel has them.
struct ExchangeRows {
  std::vector<EdgeCode> edges;
  std::vector<TransferCode> transfers;
  uint32_t mostSlices = 1;
  uint32_t lanes() const { return static_cast<uint32_t>(edges.size()) * mostSlices; }
};

}  // namespace

uint32_t Interpreter::mostExchangeSlices() const {
  const auto edges = static_cast<uint32_t>(2 * endpoint_.size() - 1);
  const auto channels = static_cast<uint32_t>(endpoint_.layout().rings.channels);
  return std::clamp(kMostLanesPerBlock * options_.blocks / edges, 1U, channels);
}

// Each slice has at least what one message by LL carries, so that both ends know from the bytes
// alone how many there are.
TransferCode Interpreter::sliced(const DeviceTransfer& transfer, const void* from, void* to) const {
  const uint64_t bytes = transfer.bytes, least = endpoint_.layout().lowLatencyBytes;
  const auto slices = static_cast<uint32_t>(
      std::clamp<uint64_t>((bytes + least - 1) / least, 1, mostExchangeSlices()));
  return {static_cast<const unsigned char*>(from),
          static_cast<unsigned char*>(to),
          bytes,
          sliceBytes(bytes, slices),
          slices,
          base::upperHalf(keyOf(transfer, slices))};
}

Interpreter::Part Interpreter::partOf(const DeviceExchange& exchange) {
  const Queues sends = byPeer(exchange.sends, endpoint_.size(), "send");
  const Queues receives = byPeer(exchange.receives, endpoint_.size(), "recv");
  const auto self = static_cast<size_t>(endpoint_.rank());
  requireSelfMatches(endpoint_.rank(), sends[self], receives[self]);
  ExchangeRows rows;
  const auto begin = [&](EdgeKind kind, size_t peer, size_t transfers) {
    if (transfers > 0)
      rows.edges.push_back({kind, static_cast<int32_t>(peer),
                            static_cast<uint32_t>(rows.transfers.size()),
                            static_cast<uint32_t>(transfers)});
  };
  const auto add = [&](const DeviceTransfer& transfer, const void* from, void* to) {
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
    for (const DeviceTransfer& t : receives[from]) add(t, nullptr, t.data);
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
  arguments.isReplayed = exchange.isCaptured;
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

void Interpreter::exchange(const DeviceExchange& exchange, cudaStream_t stream) {
  const RankExchange one{this, exchange};
  exchangeMerged({&one, 1}, stream);
}

void Interpreter::exchangeMerged(std::span<const RankExchange> ranks, cudaStream_t stream) {
  std::vector<Interpreter*> interpreters;
  for (const RankExchange& rank : ranks) interpreters.push_back(rank.interpreter);
  requireJoinable(interpreters);
  std::vector<Part> parts;
  for (const RankExchange& rank : ranks) parts.push_back(rank.interpreter->partOf(rank.exchange));
  enqueue(
      std::move(parts), Wire::Simple,
      [&](const Grid& grid, const Arguments& all) { return launchExchange(grid, all, stream); },
      stream);
}

}  // namespace tutti::executor::kernel
