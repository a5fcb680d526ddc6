#pragma once

// Mutations: faults that tests inject by purpose. An exchange that is left out or whose result is
// twice as large, or a factor that is, and that no test sees, is one that no test has proved.
//
// A mutation belongs to the process, so that all ranks that are its threads make the same calls and
// none waits for ever.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/mesh/exchange_observer.h"

namespace tutti::parallel {

/// Drop: an exchange is not made on any rank, and gives what it would if the others had zeros only;
/// a factor is one, unless its user says otherwise. Double: the result is multiplied by two.
enum class Change : uint8_t { Drop, Double };

struct Mutation {
  Purpose purpose;
  Change change;
};

/// Makes the mutation, if one is given, and counts passes, for as long as it lives. One at a time
/// in a process (Internal), made and destroyed while no rank computes. A call that it changes waits
/// for the call's stream.
class ScopedMutation final : private ExchangeObserver {
 public:
  explicit ScopedMutation(std::optional<Mutation> mutation = {});
  ~ScopedMutation() override;
  ScopedMutation(const ScopedMutation&) = delete;
  ScopedMutation& operator=(const ScopedMutation&) = delete;

  struct Passes {
    Purpose purpose;
    PurposeForm form;
    int64_t count;  ///< of all ranks of this process
  };
  /// Of the purposes that were passed.
  std::vector<Passes> passes() const;

 private:
  bool before(Purpose purpose, PurposeForm form) override;
  void after(Purpose purpose, const ExchangeOutcome& outcome, StreamRef stream) override;
  double factor(Purpose purpose, double value, double without) override;
  /// Counts it, and says what is to be changed.
  std::optional<Change> pass(Purpose purpose, PurposeForm form);
  std::optional<Change> changeOf(Purpose purpose) const;

  const std::optional<Mutation> mutation_;
  std::array<std::array<std::atomic<int64_t>, kPurposeFormCount>, kPurposes.size()> passes_{};
};

}  // namespace tutti::parallel
