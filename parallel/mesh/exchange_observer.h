#pragma once

// ExchangeObserver: sees every exchange and every factor of the ranks of this process, by purpose.
// A test may have one that counts them, leaves some out, or changes what they give
// (tests/parallel/parity/scoped_mutation.h). A training has none, and pays one relaxed load a call.

#include <atomic>
#include <cstddef>

#include <tutti/communicator.h>
#include "parallel/mesh/purpose.h"

namespace tutti::parallel {

/// What an exchange gives this rank, and which elements of that would be there without the others:
/// `ownCount` of `send` from `ownInSend`, which lie in `recv` from `ownInRecv`. Of a received
/// message there are none.
struct ExchangeOutcome {
  DataType type;
  const void* send;
  void* recv;
  size_t count;  ///< of recv
  size_t ownInSend, ownCount, ownInRecv;
};

/// Called by all ranks that are threads of this process, at the same time.
class ExchangeObserver {
 public:
  virtual ~ExchangeObserver() = default;
  /// Whether the exchange is made. All ranks have to get the same answer.
  virtual bool before(Purpose purpose, PurposeForm form) = 0;
  /// Once the exchange is put on `stream`, or has ended where there is none; also where it was not
  /// made. Of messages, once for each that this rank receives.
  virtual void after(Purpose purpose, const ExchangeOutcome& outcome, StreamRef stream) = 0;
  /// What factor() gives.
  virtual double factor(Purpose purpose, double value, double without) = 0;
};

/// Of this process; null unless a test has set one. Relaxed: it is set before ranks are started,
/// and taken back after they have ended.
inline constinit std::atomic<ExchangeObserver*> processExchangeObserver{nullptr};

inline ExchangeObserver* exchangeObserver() {
  return processExchangeObserver.load(std::memory_order_relaxed);
}

}  // namespace tutti::parallel
