#include "src/executor/exchange.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"
#include "src/base/transfer_key.h"

namespace tutti::executor {
namespace {

std::vector<Transfer> ofPeer(const std::vector<Transfer>& transfers, int peer) {
  std::vector<Transfer> its;
  std::ranges::copy_if(transfers, std::back_inserter(its),
                       [&](const Transfer& t) { return t.peer == peer; });
  return its;
}

}  // namespace

uint64_t Transfer::key(uint32_t slices) const { return base::transferKey(type, bytes, slices); }

std::string ExchangeFacts::describe() const {
  const auto part = [](uint64_t n, const char* what, uint64_t bytes) {
    return base::message(n, ' ', what, n == 1 ? " of " : "s of ", bytes, " bytes");
  };
  return part(sends, "send", bytesSent) + " and " + part(receives, "receive", bytesReceived);
}

ExchangeFacts factsOf(std::span<const Transfer> sends, std::span<const Transfer> receives) {
  ExchangeFacts facts{.sends = sends.size(), .receives = receives.size()};
  for (const Transfer& t : sends) facts.bytesSent += t.bytes;
  for (const Transfer& t : receives) facts.bytesReceived += t.bytes;
  return facts;
}

void requireSelfMatches(const Exchange& exchange, int rank) {
  const auto sends = ofPeer(exchange.sends, rank);
  const auto receives = ofPeer(exchange.receives, rank);
  if (sends.size() != receives.size())
    base::fail(ErrorCode::InvalidUsage, "rank ", rank, " has ", sends.size(),
               " sends to itself and ", receives.size(),
               " receives from itself, which match in order: put both into one tutti::Group");
  for (size_t i = 0; i < sends.size(); ++i)
    if (sends[i].key() != receives[i].key())
      base::fail(ErrorCode::InvalidUsage, "rank ", rank, " sends ",
                 base::describeTransfer(sends[i].key()), " to itself and receives ",
                 base::describeTransfer(receives[i].key()));
}

void requireDisjoint(const Exchange& exchange, int rank) {
  struct Range {
    const std::byte *begin, *end;
    bool receives;
    int peer;
  };
  std::vector<Range> ranges;
  for (const auto* transfers : {&exchange.sends, &exchange.receives})
    for (const Transfer& t : *transfers)
      if (t.bytes > 0)
        ranges.push_back({t.data, t.data + t.bytes, transfers == &exchange.receives, t.peer});
  std::ranges::sort(ranges, {}, &Range::begin);
  // The ranges so far that reach furthest, of all and of those received into.
  const Range* furthest = nullptr;
  const Range* furthestReceived = nullptr;
  const auto further = [](const Range* a, const Range& b) { return !a || a->end < b.end; };
  for (const Range& range : ranges) {
    const Range* other = range.receives ? furthest : furthestReceived;
    if (other && other->end > range.begin)
      base::fail(ErrorCode::InvalidArgument, "rank ", rank,
                 " has overlapping buffers: ", other->receives ? "received from" : "sent to",
                 " rank ", other->peer, " and ", range.receives ? "received from" : "sent to",
                 " rank ", range.peer);
    if (further(furthest, range)) furthest = &range;
    if (range.receives && further(furthestReceived, range)) furthestReceived = &range;
  }
}

}  // namespace tutti::executor
