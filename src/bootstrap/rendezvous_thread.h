#pragma once

// RendezvousThread: listening sockets, and the thread that serves the jobs that meet there. It ends
// with the last of them.

#include <memory>
#include <mutex>
#include <vector>

#include "src/base/process.h"
#include "src/bootstrap/meeting.h"
#include "src/wire/handshake_listener.h"

namespace tutti::bootstrap {

class RendezvousThread {
 public:
  /// One: whoever comes is the job's, or is told that it is not. Many: those of this process's
  /// unique ids, by the job that a rank claims.
  enum class Jobs { One, Many };
  /// Listens where `point` says. Throws System when an address cannot be listened at.
  RendezvousThread(const Rendezvous& point, Jobs jobs);
  RendezvousThread(const RendezvousThread&) = delete;
  RendezvousThread& operator=(const RendezvousThread&) = delete;

  /// The addresses, with the port where the kernel has chosen it.
  const Rendezvous& point() const { return point_; }
  /// The interface of the address for other hosts.
  const std::string& interface() const { return interface_; }

  /// Starts the thread, with its first job.
  static void start(const std::shared_ptr<RendezvousThread>& thread,
                    std::shared_ptr<Meeting> first);
  /// One job more, from any thread. False where the last has ended, or in a forked child.
  bool add(std::shared_ptr<Meeting> meeting);
  /// Something about a job has changed. From any thread.
  void wake() const;

 private:
  void run();
  void step();
  void takeAdded();
  void admit(wire::HandshakeConnection known);
  void endThoseOver();
  void end(const std::vector<std::shared_ptr<Meeting>>& meetings);
  wire::Expected expect(const wire::Claim& claim) const;
  std::vector<base::FileDescriptor> listen();

  Rendezvous point_;
  const Jobs jobs_;
  std::string interface_;
  const base::FileDescriptor wake_;
  std::optional<wire::HandshakeListener> listener_;
  std::vector<std::shared_ptr<Meeting>> meetings_;  // the thread's
  std::mutex mutex_;
  std::vector<std::shared_ptr<Meeting>> added_;  // under mutex_
  bool closed_ = false;                          // the same
  const base::ProcessGuard guard_;
};

}  // namespace tutti::bootstrap
