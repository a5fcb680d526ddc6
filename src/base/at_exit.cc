#include "src/base/at_exit.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace tutti::base {

struct ExitList {
  std::mutex mutex;
  std::vector<AtExit*> entries;

  static ExitList& instance() {
    static auto* const list = new ExitList;
    return *list;
  }

 private:
  ExitList() {
    freeInForkedChildren(mutex);
    std::atexit([] {
      const std::lock_guard lock(instance().mutex);
      const auto& all = instance().entries;
      std::for_each(all.rbegin(), all.rend(), [](const AtExit* entry) {
        if (!entry->guard_.inForkedChild()) entry->stop_();
      });
    });
  }
};

AtExit::AtExit(std::function<void()> stop) : stop_(std::move(stop)) {
  const std::lock_guard lock(ExitList::instance().mutex);
  ExitList::instance().entries.push_back(this);
}

AtExit::~AtExit() {
  const std::lock_guard lock(ExitList::instance().mutex);
  std::erase(ExitList::instance().entries, this);
}

}  // namespace tutti::base
