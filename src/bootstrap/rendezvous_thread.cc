#include "src/bootstrap/rendezvous_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/log.h"
#include "src/base/service_thread.h"
#include "src/bootstrap/network_interface.h"

namespace tutti::bootstrap {
namespace {

constexpr int kBacklog = 4096;

}  // namespace

RendezvousThread::RendezvousThread(const Rendezvous& point, Jobs jobs)
    : point_(point), jobs_(jobs), wake_(TUTTI_SYSCALL(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  constexpr auto kPurpose = wire::HandshakePurpose::Rendezvous;
  if (jobs == Jobs::One)
    listener_.emplace(listen(), point.credentials, kPurpose, -1);
  else
    listener_.emplace(listen(), kPurpose,
                      [this](const wire::Claim& claim) { return expect(claim); });
}

std::vector<base::FileDescriptor> RendezvousThread::listen() {
  std::vector<base::FileDescriptor> listeners;
  listeners.push_back(wire::listenOn(point_.address, kBacklog));
  if (!point_.network) return listeners;
  listeners.push_back(wire::listenOn(*point_.network, kBacklog));
  point_.network = wire::localAddress(listeners.back().get());
  interface_ = interfaceWith(*point_.network, interfacesUp());
  return listeners;
}

/// Of a job that nobody has made, or that has ended, no secret is right.
wire::Expected RendezvousThread::expect(const wire::Claim& claim) const {
  for (const auto& meeting : meetings_)
    if (meeting->point().credentials.job == claim.job)
      return {.credentials = meeting->point().credentials};
  return {.credentials = {.secret = wire::randomBytes<32>(), .job = claim.job}};
}

void RendezvousThread::start(const std::shared_ptr<RendezvousThread>& thread,
                             std::shared_ptr<Meeting> first) {
  base::logEnabled(LogLevel::Debug);  // what the thread logs with outlives this object
  thread->meetings_.push_back(std::move(first));
  base::ServiceThread::startAlone("tutti-set-up", [thread] { thread->run(); });
}

bool RendezvousThread::add(std::shared_ptr<Meeting> meeting) {
  if (guard_.inForkedChild()) return false;
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  added_.push_back(std::move(meeting));
  wake();
  return true;
}

void RendezvousThread::wake() const {
  const uint64_t one = 1;
  // Fails where it is awake already.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void RendezvousThread::run() {
  while (listener_) {
    try {
      step();
    } catch (const std::exception& error) {
      base::log(LogLevel::Error, "the rendezvous failed: ", error.what());
      takeAdded();
      end(std::exchange(meetings_, {}));
    }
  }
}

void RendezvousThread::step() {
  wire::PollSet set;
  set.add(wake_.get(), POLLIN);
  listener_->watch(set);
  for (const auto& meeting : meetings_) meeting->watch(set);
  set.wait(wire::HandshakeListener::kPatrolMs);
  uint64_t ignored = 0;
  if (set.happened(wake_.get()) != 0) [[maybe_unused]]
    const ssize_t count = ::read(wake_.get(), &ignored, sizeof ignored);
  takeAdded();
  listener_->advance(set);
  for (wire::HandshakeConnection& known : listener_->takeAuthenticated()) admit(std::move(known));
  for (const auto& meeting : meetings_) meeting->advance(set);
  endThoseOver();
}

void RendezvousThread::takeAdded() {
  std::lock_guard lock(mutex_);
  std::ranges::move(std::exchange(added_, {}), std::back_inserter(meetings_));
}

/// The job of the secret that it knows; a lone job also tells those of others who meets here.
void RendezvousThread::admit(wire::HandshakeConnection known) {
  const wire::JobId job = known.handshake().claim().job;
  for (const auto& meeting : meetings_)
    if (jobs_ == Jobs::One || meeting->point().credentials.job == job)
      return meeting->admit(std::move(known));
}

void RendezvousThread::endThoseOver() {
  const auto first = std::stable_partition(meetings_.begin(), meetings_.end(),
                                           [](const auto& meeting) { return !meeting->over(); });
  const std::vector<std::shared_ptr<Meeting>> over(first, meetings_.end());
  if (over.empty()) return;
  meetings_.erase(first, meetings_.end());
  end(over);
}

/// Those are no longer in meetings_. Before a job counts as finished, its address is free, unless
/// others meet there.
void RendezvousThread::end(const std::vector<std::shared_ptr<Meeting>>& meetings) {
  for (const auto& meeting : meetings) meeting->close();
  {
    std::lock_guard lock(mutex_);
    closed_ = meetings_.empty() && added_.empty();
    if (closed_) listener_.reset();
  }
  for (const auto& meeting : meetings) meeting->finish();
}

}  // namespace tutti::bootstrap
