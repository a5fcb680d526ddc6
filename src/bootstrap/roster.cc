#include "src/bootstrap/roster.h"

#include <algorithm>

#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kNamedRanks = 8;
constexpr size_t kMaxRemarkBytes = 512;

std::string name(int rank, const PeerInfo& info) {
  return base::message("rank ", rank, " (", info.describe(), ")");
}

template <class... Parts>
Roster::Decision refuse(Roster::Verdict verdict, ErrorCode code, const Parts&... parts) {
  return {.verdict = verdict, .why = {.code = code, .text = base::message(parts...)}};
}

}  // namespace

Roster::Roster(const Rendezvous& point, const ExistingRanks& existing)
    : job_(point.credentials.job),
      place_(describeAddresses(point)),
      manyMayHaveIt_(point.openedByRankZero),
      existing_(existing) {}

/// Of a new rank that has the number of an existing one.
std::optional<Roster::Decision> Roster::wrongSide(const wire::Claim& claim,
                                                  const Arrival& arrival) const {
  const bool isExisting = claim.rank < existing_.count;
  if (!isExisting || arrival.ticket == existing_.ticket) return std::nullopt;
  return refuse(Verdict::RefuseAll, ErrorCode::Refused, name(claim.rank, arrival.info),
                " joins a communicator that grows, as if it were one of its ", existing_.count,
                " ranks: new ranks have the numbers from ", existing_.count, " on");
}

Roster::Decision Roster::admit(const wire::Claim& claim, const Arrival& arrival) {
  using enum Verdict;
  const std::string who = name(claim.rank, arrival.info);
  if (claim.job != job_)
    return refuse(RefuseOne, ErrorCode::Refused, who, " belongs to job ", wire::brief(claim.job),
                  ", and job ", wire::brief(job_), " meets here");
  if (claim.version != wire::kProtocolVersion)
    return refuse(RefuseAll, ErrorCode::Refused, who, " speaks set-up protocol version ",
                  claim.version, ", and the rendezvous speaks version ", wire::kProtocolVersion);
  if (claim.size < 1 || claim.size > kMaxWorldSize || claim.rank < 0 || claim.rank >= claim.size)
    return refuse(RefuseOne, ErrorCode::Refused, who, " is not in its world of ", claim.size);
  if (size_ != 0 && claim.size != size_)
    return refuse(RefuseAll, ErrorCode::Refused, who, " has world size ", claim.size, ", but ",
                  describe(arrived_.begin()->first), " has world size ", size_);
  if (const auto wrong = wrongSide(claim, arrival)) return *wrong;
  if (const auto same = arrived_.find(claim.rank); same != arrived_.end()) {
    if (manyMayHaveIt_)
      return refuse(RefuseAll, ErrorCode::Refused, describe(claim.rank), " and ", who,
                    " both came to ", place_, " with the key of job ", wire::brief(job_),
                    ": two jobs meet there, and nothing tells their ranks apart. Give one of them "
                    "another port, or each a TUTTI_JOB_ID of its own");
    Decision decision = refuse(RefuseOne, ErrorCode::Refused, who,
                               " was refused: ", describe(claim.rank), " has joined already");
    if (remarks_.size() < kMaxRemarkBytes) remarks_ += "; " + decision.why.text;
    return decision;
  }
  for (const auto& [rank, other] : arrived_) {
    if (other.info.bootId == arrival.info.bootId || (other.network && arrival.network)) continue;
    return refuse(RefuseAll, ErrorCode::Refused, who, " is on another host than ", describe(rank),
                  " (", arrival.info.bootId, " and ", other.info.bootId, "), and ",
                  arrival.network ? describe(rank) : who,
                  " has no address that other hosts reach: the job meets on one host, or none of "
                  "its network interfaces is up (TUTTI_INTERFACE names one)");
  }
  size_ = claim.size;
  arrived_.emplace(claim.rank, arrival).first->second.ticket = {};
  return {};
}

bool Roster::lacks(const wire::Claim& claim) const {
  return claim.job == job_ && !complete() && !arrived_.contains(claim.rank);
}

Table Roster::table() const {
  Table table;
  table.ranks.reserve(arrived_.size());
  for (const auto& [rank, arrival] : arrived_) table.ranks.push_back(arrival);
  return table;
}

std::string Roster::describe(int rank) const {
  const auto found = arrived_.find(rank);
  if (found == arrived_.end()) return base::message("rank ", rank);
  return name(rank, found->second.info);
}

std::string Roster::progress() const {
  if (size_ == 0) return "no rank has arrived";
  std::string text = base::message(arrived_.size(), " of ", size_, " ranks have arrived");
  if (complete()) return text;
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank)
    if (!arrived_.count(rank)) missing.push_back(rank);
  return text + "; missing: " + listRanks(missing) + remarks_;
}

std::string listRanks(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kNamedRanks); ++i)
    text += base::message(i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kNamedRanks)
    text += base::message(" and ", ranks.size() - kNamedRanks, " more");
  return text;
}

}  // namespace tutti::bootstrap
