#include "tests/support/growing_ranks.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"

namespace tutti::tests {

struct SharedId::Page {
  std::atomic<int> published{0};
  std::atomic<int> finished{0};
  UniqueId id;
};

SharedId::SharedId()
    : page_(new (::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Page) {}
SharedId::~SharedId() { ::munmap(page_, sizeof(Page)); }

void SharedId::publish(const UniqueId& id) {
  page_->id = id;
  page_->published.store(1);
}

UniqueId SharedId::await() const {
  const auto deadline = base::Deadline::after(std::chrono::seconds(20));
  while (page_->published.load() == 0) {
    if (deadline.passed()) throw std::runtime_error("no id was published");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return page_->id;
}

void SharedId::finish() { page_->finished.fetch_add(1); }

void SharedId::awaitFinished(int count) const {
  const auto deadline = base::Deadline::after(std::chrono::seconds(1));
  while (page_->finished.load() < count && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int sumOfRanks(Communicator& c) {
  int sum = c.rank() + 1;
  c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
  return sum;
}

void sayHow(const RankProcesses::Context& context, const std::function<Communicator()>& make) {
  try {
    Communicator grown = make();
    context.say("grown, sum " + std::to_string(sumOfRanks(grown)));
  } catch (const Error& e) {
    context.say(std::string(toString(e.code())) + ": " + e.what());
  }
}

void GrowingRanks::growAndSay(const RankProcesses::Context& context, Communicator& c,
                              const GrowArgs& args) {
  sayHow(context, [&] { return c.grow(args); });
  try {
    if (sumOfRanks(c) == c.size() * (c.size() + 1) / 2) context.say("usable");
  } catch (const Error&) {  // it has failed, too
  }
}

void GrowingRanks::createAndSay(const RankProcesses::Context& context,
                                const CommunicatorOptions& options) {
  sayHow(context, [&] { return Communicator::create(options); });
}

std::unique_ptr<RankProcesses> GrowingRanks::start(std::function<void(int rank)> prepare) const {
  const auto place = std::make_shared<SharedId>();
  const auto body = [its = *this, place](const RankProcesses::Context& context) {
    CommunicatorOptions mine = its.options;
    mine.rank = context.rank;
    if (its.adjust) its.adjust(context.rank, mine);
    if (context.rank >= its.existing) {
      mine.id = place->await();
      mine.size = its.size;
      its.fresh(context, mine);
      place->finish();
      return 0;
    }
    mine.id = context.id;
    mine.size = its.existing;
    Communicator c = Communicator::create(mine);
    GrowArgs args{.size = its.size};
    if (context.rank == 0) args.id = c.growId();
    if (args.id) place->publish(*args.id);
    c.barrier();
    its.old(context, c, args);
    if (context.rank == 0) place->awaitFinished(its.processes - its.existing);
    return 0;
  };
  return std::make_unique<RankProcesses>(processes, body, std::move(prepare));
}

}  // namespace tutti::tests
