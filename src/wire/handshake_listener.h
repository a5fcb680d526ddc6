#pragma once

// HandshakeListener: listening sockets, of a job's set-up or of a transport. Whoever connects must
// finish the handshake in time; a connection that is silent, slow or sends anything else is dropped
// and never delays another. The number of strangers inside is bounded: when it is reached the
// oldest must go, after a moment in which an honest one would have been done.

#include <functional>
#include <list>

#include "src/base/throttled_log.h"
#include "src/wire/handshake_connection.h"

namespace tutti::wire {

class HandshakeListener {
 public:
  /// `sameUser`: only processes of this user may come, over Unix sockets.
  HandshakeListener(std::vector<base::FileDescriptor> listeners, HandshakePurpose purpose,
                    Expectation expectation, bool sameUser = false);
  /// The same is expected of every claim.
  HandshakeListener(std::vector<base::FileDescriptor> listeners, const Credentials& credentials,
                    HandshakePurpose purpose, int ownRank);
  ~HandshakeListener();

  void watch(PollSet& set) const;
  /// Poll at least this often, so that strangers are dropped in time.
  static constexpr int kPatrolMs = 100;
  void advance(const PollSet& set);
  /// Those who have proved that they know the secret, since the last call.
  std::vector<HandshakeConnection> takeAuthenticated();

  static constexpr std::chrono::milliseconds kHandshakeTime{5000};
  static constexpr std::chrono::milliseconds kHonestTime{250};

 private:
  void admit();
  bool admitOne(int listener);
  void drop(const std::string& why, std::list<HandshakeConnection>::iterator stranger);

  std::vector<base::FileDescriptor> listeners_;
  HandshakePurpose purpose_;
  Expectation expectation_;
  bool sameUser_;
  const size_t most_;
  size_t limit_;  // less than most_ where there was no descriptor left
  bool full_ = false;
  base::ThrottledLog dropped_{LogLevel::Info}, refused_{LogLevel::Warning};
  std::list<HandshakeConnection> strangers_;  // oldest first
  std::vector<HandshakeConnection> authenticated_;
};

/// Descriptors that this process may still open.
size_t freeDescriptors();

}  // namespace tutti::wire
