#include "src/bootstrap/rendezvous_server.h"

namespace tutti::bootstrap {

RendezvousServer::RendezvousServer(const Rendezvous& point, std::chrono::milliseconds lifetime) {
  const auto thread = std::make_shared<RendezvousThread>(point, RendezvousThread::Jobs::One);
  meeting_ = std::make_shared<Meeting>(thread->point(), thread->interface(), lifetime);
  thread_ = thread;
  RendezvousThread::start(thread, meeting_);
}

RendezvousServer::~RendezvousServer() {
  if (guard_.inForkedChild()) {
    base::abandon(std::move(meeting_));
    return;
  }
  meeting_->stop();
  if (const auto thread = thread_.lock()) thread->wake();
  meeting_->awaitFinish();
}

void RendezvousServer::giveUp(const Failure& why) {
  if (guard_.inForkedChild()) return;
  meeting_->giveUp(why);
  if (const auto thread = thread_.lock()) thread->wake();
}

}  // namespace tutti::bootstrap
