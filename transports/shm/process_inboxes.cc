#include "transports/shm/process_inboxes.h"

#include <sys/random.h>

#include <map>
#include <mutex>

#include "src/base/check.h"
#include "src/base/process.h"

namespace tutti::transports::shm {
namespace {

struct Inboxes {
  std::mutex mutex;
  uint64_t generation = 0;  // of the process that made the token
  ProcessToken token{};
  uint64_t lastNumber = 0;
  std::map<uint64_t, std::weak_ptr<Segment>> byNumber;
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

uint64_t registerInbox(const std::shared_ptr<Segment>& inbox) {
  Inboxes& all = inboxes();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.byNumber, [](const auto& entry) { return entry.second.expired(); });
  all.byNumber.emplace(++all.lastNumber, inbox);
  return all.lastNumber;
}

std::shared_ptr<Segment> findInbox(uint64_t number) {
  Inboxes& all = inboxes();
  std::lock_guard lock(all.mutex);
  const auto it = all.byNumber.find(number);
  return it == all.byNumber.end() ? nullptr : it->second.lock();
}

}  // namespace tutti::transports::shm
