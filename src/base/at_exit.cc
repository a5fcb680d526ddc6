#include "src/base/at_exit.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/backoff.h"
#include "src/base/log.h"
#include "src/base/service_thread.h"

namespace tutti::base {
namespace {

// What all of a phase may take together, and how much longer the exit waits for it. In the first
// one data may be under way on a slow network.
constexpr std::chrono::seconds kLongestHandlers{20}, kLongestLast{2}, kPhaseGrace{1};

std::atomic<bool> lastPhase{false};
// Of the process that made the last entry; 0: there was none.
std::atomic<uint64_t> entriesOf{0};

}  // namespace

struct ExitList {
  std::mutex mutex;
  std::map<uint64_t, AtExit*> entries;  // by their number, which only grows
  uint64_t last = 0;
  std::atomic<const AtExit*> running{nullptr};  // the one whose function is being called

  static ExitList& instance() {
    static auto* const list = new ExitList;
    return *list;
  }

  uint64_t add(AtExit* entry) {
    const std::lock_guard lock(mutex);
    entriesOf.store(processGeneration(), std::memory_order_relaxed);
    entries.emplace(++last, entry);
    return last;
  }

  void remove(const AtExit& entry) {
    {
      const std::lock_guard lock(mutex);
      entries.erase(entry.number_);
    }
    if (entry.guard_.inForkedChild()) return;
    const auto longest = Deadline::after(kLongestHandlers + kPhaseGrace);
    for (Backoff backoff(false); running.load() == &entry && !longest.passed();) backoff.idle();
  }

  static void stopIfAny(AtExit::Phase phase) {
    if (entriesOf.load(std::memory_order_relaxed) == processGeneration()) instance().stop(phase);
  }

 private:
  ExitList() {
    freeInForkedChildren(mutex);
    std::atexit([] { stopIfAny(AtExit::Phase::Handlers); });
  }

  /// By a thread of its own: this one may hold any lock, as where a signal's handler has called
  /// exit(), and then waits no longer than it has to.
  void stop(AtExit::Phase phase) {
    if (phase == AtExit::Phase::Last) lastPhase.store(true);
    const auto longest = phase == AtExit::Phase::Last ? kLongestLast : kLongestHandlers;
    const auto deadline = Deadline::after(longest);
    const auto over = std::make_shared<std::promise<void>>();
    try {
      ServiceThread::startAlone("tutti-exit", [this, phase, deadline, over] {
        stopAll(phase, deadline);
        over->set_value();
      });
    } catch (const std::exception&) {  // there may be no more threads
      return stopAll(phase, deadline);
    }
    if (over->get_future().wait_for(longest + kPhaseGrace) != std::future_status::ready)
      std::fputs("tutti [warning] the program ends, and waits no longer for Tutti's threads\n",
                 stderr);
  }

  void stopAll(AtExit::Phase phase, const Deadline& deadline) {
    uint64_t before = UINT64_MAX;
    while (const AtExit* const entry = next(phase, before)) {
      before = entry->number_;
      try {
        entry->stop_(deadline);
      } catch (const std::exception& error) {
        log(LogLevel::Error, "at the program's exit: ", error.what());
      }
      running.store(nullptr);
    }
  }

  /// The newest one of this process that is older; it is running from then on.
  const AtExit* next(AtExit::Phase phase, uint64_t before) {
    const std::lock_guard lock(mutex);
    for (auto at = entries.lower_bound(before); at != entries.begin();) {
      const AtExit* const entry = (--at)->second;
      if (entry->phase_ != phase || entry->guard_.inForkedChild()) continue;
      running.store(entry);
      return entry;
    }
    return nullptr;
  }
};

namespace {

__attribute__((destructor)) void stopLast() { ExitList::stopIfAny(AtExit::Phase::Last); }

}  // namespace

AtExit::AtExit(Stop stop, Phase phase)
    : stop_(std::move(stop)), phase_(phase), number_(ExitList::instance().add(this)) {}

AtExit::~AtExit() { ExitList::instance().remove(*this); }

bool exitsNow() { return lastPhase.load(std::memory_order_relaxed); }

}  // namespace tutti::base
