#pragma once

// Short collectives: repeats of an earlier call whose messages are small and stay on this host.
// Nothing is built for them but what ShortProgram has. A table of the last kinds of calls; the
// thread that issues owns it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/communicator/arguments.h"
#include "src/executor/call.h"
#include "src/executor/host/short_program.h"
#include "src/plan/plan.h"

namespace tutti::communicator {

struct ReadyChoice;

/// What makes a call a repeat of another. Such calls ask for nothing special.
struct ShortKind {
  plan::Collective collective = plan::Collective::Barrier;
  DataType type = DataType::UInt8;
  ReduceOp op = ReduceOp::Sum;
  int32_t root = 0;
  uint64_t count = 0;
  bool operator==(const ShortKind&) const = default;
};

/// A call that may be short. Its arguments are not checked yet.
struct ShortCall {
  ShortKind kind;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  uint64_t inBytes = UINT64_MAX, outBytes = UINT64_MAX;  ///< that the buffers have, if it is known
};

/// A kind of call that was made before, checked, and chosen for.
class KnownCall {
 public:
  /// `number`: not 0, and that of no other of the communicator.
  KnownCall(uint64_t number, const executor::CallFacts& facts, Caller by, ReadyChoice& choice,
            std::unique_ptr<executor::ShortProgram> program);

  /// Whether the buffers are right for this rank. Where they are not, the general path says why.
  bool fits(const ShortCall& call) const;
  uint64_t number() const { return number_; }
  const executor::CallFacts& facts() const { return facts_; }
  ReadyChoice& choice() const { return choice_; }
  executor::ShortProgram& program() const { return *program_; }

 private:
  const uint64_t number_;
  const executor::CallFacts facts_;
  ReadyChoice& choice_;
  const std::unique_ptr<executor::ShortProgram> program_;
  uint64_t inBytes_, outBytes_;      // that the call touches
  uint64_t inPlaceIn_, inPlaceOut_;  // offsets that are the same address in place
};

class ShortCalls {
 public:
  /// Null: not known, or not short.
  KnownCall* find(const ShortKind& kind) const {
    const Place& place = places_[indexOf(kind)];
    return place.kind == kind ? place.known.get() : nullptr;
  }
  // A kind is seen first, and then settled, unless others have taken its place.
  bool hasSeen(const ShortKind& kind) const { return places_[indexOf(kind)].kind == kind; }
  bool isSettled(const ShortKind& kind) const {
    return hasSeen(kind) && places_[indexOf(kind)].isSettled;
  }
  void see(const ShortKind& kind) { places_[indexOf(kind)] = {.kind = kind}; }
  /// `known`: null for a kind that is not short.
  void settle(const ShortKind& kind, std::unique_ptr<KnownCall> known) {
    places_[indexOf(kind)] = {kind, true, std::move(known)};
  }
  void forget() { places_ = {}; }

 private:
  struct Place {
    std::optional<ShortKind> kind = {};
    bool isSettled = false;
    std::unique_ptr<KnownCall> known = nullptr;
  };
  static constexpr size_t kPlaces = 16;
  static size_t indexOf(const ShortKind& kind) {
    const uint64_t mixed = kind.count ^ kind.count >> 8 ^
                           static_cast<uint64_t>(kind.collective) * 3 ^
                           static_cast<uint64_t>(kind.type) ^ static_cast<uint64_t>(kind.root) * 5;
    return mixed % kPlaces;
  }
  std::array<Place, kPlaces> places_;
};

}  // namespace tutti::communicator
