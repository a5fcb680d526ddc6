#include "src/wire/handshake_listener.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "src/base/log.h"
#include "src/wire/address.h"

namespace tutti::wire {
namespace {

using Time = std::chrono::steady_clock;

size_t openDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  size_t count = 0;
  while (folder && ::readdir(folder.get())) ++count;
  return count > 3 ? count - 3 : 0;  // ".", ".." and the folder's own
}

}  // namespace

size_t freeDescriptors() {
  rlimit limit{};
  TUTTI_SYSCALL(::getrlimit(RLIMIT_NOFILE, &limit));
  const size_t open = openDescriptors();
  return limit.rlim_cur > open ? limit.rlim_cur - open : 0;
}

HandshakeListener::HandshakeListener(std::vector<base::FileDescriptor> listeners,
                                     const Credentials& credentials, HandshakePurpose purpose,
                                     int ownRank)
    : HandshakeListener(
          std::move(listeners), purpose,
          [expected = Expected{credentials, ownRank}](const Claim&) { return expected; },
          credentials.sameUser) {}

HandshakeListener::HandshakeListener(std::vector<base::FileDescriptor> listeners,
                                     HandshakePurpose purpose, Expectation expectation,
                                     bool sameUser)
    : listeners_(std::move(listeners)),
      purpose_(purpose),
      expectation_(std::move(expectation)),
      sameUser_(sameUser),
      most_(std::clamp<size_t>(freeDescriptors() / 4, 4, 256)),
      limit_(most_) {}

HandshakeListener::~HandshakeListener() {
  for (const base::FileDescriptor& listener : listeners_)
    if (listener) ::shutdown(listener.get(), SHUT_RDWR);  // also for copies in forked children
}

void HandshakeListener::watch(PollSet& set) const {
  if (!full_)
    for (const base::FileDescriptor& listener : listeners_) set.add(listener.get(), POLLIN);
  for (const HandshakeConnection& stranger : strangers_) stranger.watch(set);
}

void HandshakeListener::drop(const std::string& why,
                             std::list<HandshakeConnection>::iterator stranger) {
  dropped_.log("dropped a connection: ", why);
  strangers_.erase(stranger);
}

void HandshakeListener::advance(const PollSet& set) {
  const auto now = Time::now();
  for (auto next = strangers_.begin(); next != strangers_.end();) {
    const auto stranger = next++;
    try {
      stranger->advance(set);
      if (stranger->authenticated() && stranger->flushed()) {
        authenticated_.push_back(std::move(*stranger));
        strangers_.erase(stranger);
      } else if (stranger->ended()) {
        drop("it closed before it proved who it is", stranger);
      } else if (now - stranger->since() > kHandshakeTime) {
        drop("it said nothing for too long", stranger);
      }
    } catch (const Error& error) {
      drop(error.what(), stranger);
    }
  }
  const bool knocked = std::ranges::any_of(
      listeners_, [&](const base::FileDescriptor& l) { return set.happened(l.get()) != 0; });
  if (full_ || knocked) admit();
}

void HandshakeListener::admit() {
  full_ = false;
  for (size_t next = 0; !full_ && next < listeners_.size();) {
    if (strangers_.size() >= limit_) {
      full_ = Time::now() - strangers_.front().since() < kHonestTime;
      if (full_) return;
      drop("too many had not proved who they are", strangers_.begin());
    }
    if (!admitOne(listeners_[next].get())) ++next;
  }
}

bool HandshakeListener::admitOne(int listener) {
  base::FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    // No descriptor is left: as full as by count. Another error is of that one connection.
    if (errno == EMFILE || errno == ENFILE) {
      limit_ = std::max<size_t>(1, strangers_.size());
      full_ = true;
    }
    return false;
  }
  if (sameUser_ && peerProcess(socket.get()).uid != ::geteuid()) {
    refused_.log("refused a process of user ", peerProcess(socket.get()).uid,
                 ": without TUTTI_JOB_KEY only this user's may join");
    return true;
  }
  limit_ = std::min(most_, limit_ + 1);  // where descriptors were few before
  noticeDeadHost(socket.get());
  strangers_.emplace_back(std::move(socket), Handshake::accepting(purpose_, expectation_));
  return true;
}

std::vector<HandshakeConnection> HandshakeListener::takeAuthenticated() {
  return std::exchange(authenticated_, {});
}

}  // namespace tutti::wire
