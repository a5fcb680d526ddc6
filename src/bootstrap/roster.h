#pragma once

// Roster: who has arrived at a rendezvous, and what follows from each arrival. Only values; the
// server beside it moves the bytes.

#include <map>
#include <optional>

#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/wire/setup_message.h"
#include "src/wire/handshake.h"

namespace tutti::bootstrap {

class Roster {
 public:
  explicit Roster(const Rendezvous& point, const ExistingRanks& existing = {});

  enum class Verdict {
    Welcome,
    RefuseOne,  ///< the newcomer is refused, the job goes on
    RefuseAll,  ///< the job cannot succeed any more
  };
  struct Decision {
    Verdict verdict = Verdict::Welcome;
    Failure why;  ///< when refused
  };
  /// Of a connection that has proved that it knows the secret. The first to come says how large
  /// the world is. A second process of a rank ends set-up for all where the rendezvous follows from
  /// a launcher's variables: another job may have the same ones, and then ranks of both are there.
  Decision admit(const wire::Claim& claim, const Arrival& arrival);

  /// Whether a rank that connects without arriving is one that is missing. One that does not know
  /// its rank may be any.
  bool lacks(const wire::Claim& claim) const;

  bool complete() const { return size_ > 0 && arrived_.size() == static_cast<size_t>(size_); }
  /// Whether its job is a communicator that grows.
  bool grows() const { return existing_.count > 0; }
  int size() const { return size_; }  ///< 0 before anybody came
  Table table() const;
  /// "rank 2 (pid 7 on host n)"
  std::string describe(int rank) const;
  /// "3 of 8 ranks have arrived; missing: 1, 4, 5 and 2 more"
  std::string progress() const;

 private:
  std::optional<Decision> wrongSide(const wire::Claim& claim, const Arrival& arrival) const;

  wire::JobId job_;
  std::string place_;
  bool manyMayHaveIt_;  // the rendezvous, as variables say where it is
  const ExistingRanks existing_;
  int size_ = 0;
  std::map<int, Arrival> arrived_;
  std::string remarks_;  // about those who were refused, for the message of a timeout
};

/// "1, 4, 5 and 2 more": the first eight.
std::string listRanks(const std::vector<int>& ranks);

}  // namespace tutti::bootstrap
