#pragma once

// HandshakeListener: the listening sockets of a job's set-up. Whoever connects must finish the
// handshake in time; a connection that is silent, slow or sends anything else is dropped and never
// delays another. The number of strangers inside is bounded: when it is reached the oldest must go,
// after a moment in which an honest one would have been done.

#include <functional>
#include <list>

#include "src/bootstrap/wire/setup_connection.h"

namespace tutti::bootstrap {

class HandshakeListener {
 public:
  HandshakeListener(std::vector<base::FileDescriptor> listeners, const Credentials& credentials,
                    HandshakePurpose purpose, int ownRank);
  ~HandshakeListener();

  void watch(PollSet& set) const;
  /// Poll at least this often, so that strangers are dropped in time.
  static constexpr int kPatrolMs = 100;
  void advance(const PollSet& set);
  /// Those who have proved that they know the secret, since the last call.
  std::vector<SetupConnection> takeAuthenticated();

  static constexpr std::chrono::milliseconds kHandshakeTime{5000};
  static constexpr std::chrono::milliseconds kHonestTime{250};

 private:
  void admit();
  bool admitOne(int listener);
  void drop(const std::string& why, std::list<SetupConnection>::iterator stranger);

  std::vector<base::FileDescriptor> listeners_;
  Credentials credentials_;
  HandshakePurpose purpose_;
  int ownRank_;
  size_t limit_;
  bool full_ = false;
  std::list<SetupConnection> strangers_;  // oldest first
  std::vector<SetupConnection> authenticated_;
};

/// Descriptors that this process may still open.
size_t freeDescriptors();

}  // namespace tutti::bootstrap
