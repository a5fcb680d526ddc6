#include "transports/shm/process_inboxes.h"

#include <sys/random.h>

#include <map>
#include <mutex>

#include "src/base/check.h"
#include "src/base/process.h"

namespace tutti::transports::shm {
namespace {

struct InboxEntry {
  std::weak_ptr<Segment> inbox;
  int rank;
};

struct Inboxes {
  Inboxes() { base::freeInForkedChildren(mutex); }
  std::mutex mutex;
  uint64_t generation = 0;  // of the process that made the token
  ProcessToken token{};
  uint64_t lastNumber = 0;
  std::map<uint64_t, InboxEntry> byNumber;
};

Inboxes& inboxes() {
  static auto* const instance = new Inboxes;  // outlives endpoints in static storage
  return *instance;
}

}  // namespace

ProcessToken processToken() {
  Inboxes& all = inboxes();
  std::lock_guard lock(all.mutex);
  if (all.generation != base::processGeneration()) {
    TUTTI_SYSCALL(::getrandom(all.token.data(), all.token.size(), 0));
    all.generation = base::processGeneration();
  }
  return all.token;
}

uint64_t registerInbox(const std::shared_ptr<Segment>& inbox, int rank) {
  Inboxes& all = inboxes();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.byNumber, [](const auto& entry) { return entry.second.inbox.expired(); });
  all.byNumber.emplace(++all.lastNumber, InboxEntry{inbox, rank});
  return all.lastNumber;
}

std::shared_ptr<Segment> findInbox(uint64_t number, int rank) {
  Inboxes& all = inboxes();
  std::lock_guard lock(all.mutex);
  const auto it = all.byNumber.find(number);
  if (it == all.byNumber.end() || it->second.rank != rank) return nullptr;
  return it->second.inbox.lock();
}

}  // namespace tutti::transports::shm
