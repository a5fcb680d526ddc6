#include "src/communicator/state.h"

#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/setup.h"

namespace tutti {

Communicator::Impl::Impl(communicator::Membership membership, const communicator::Settings& chosen)
    : who(std::move(membership)),
      settings(chosen),
      children(who.id()),
      links(who, settings),
      messages(who),
      failure(who, messages,
              {.abort = [this] { gpu.abort(); },
               .recorded = [this](size_t lines) { return recorded(lines); }}),
      peers(who, messages, failure),
      votes(who, messages, failure, peers),
      host(who, settings, links, failure),
      gpu(who, settings, links, failure),
      oneSided(who, settings, links, messages, failure, peers, gpu),
      owners{who, settings, links, messages, failure, peers, host, gpu, oneSided},
      watchdog(owners) {}

Communicator::Impl::~Impl() {
  if (who.inForkedChild()) return;  // nobody is told
  if (!watchdog.listens()) return;  // nobody has heard of it
  oneSided.openGate();
  watchdog.forgetExit();
  gpu.finish();
  drain(base::Deadline::after(base::kLongestWait));  // transports have limits of their own
  for (transports::Endpoint* const endpoint : {links.endpoint(), oneSided.endpoint()})
    if (endpoint && failure.hasFailed()) endpoint->abandon();
  sayGoodbye();
  gpu.awaitPeers(peers);
  gpu.park();
  watchdog.stop();
}

// A failure is repeated, so that nobody hears of this rank's leaving before he hears of its reason.
// The others need the goodbye too: who has left is not waited for when they shrink.
void Communicator::Impl::sayGoodbye() {
  if (const std::optional<Error> reason = failure.reason()) failure.tell(*reason);
  messages.sendAll(
      communicator::message::GoodbyeMessage{host.collectivesDone(), gpu.collectivesEnded()});
}

void Communicator::Impl::drain(const base::Deadline& deadline) {
  const auto ends = [&] { return failure.hasFailed() || deadline.passed(); };
  for (transports::Endpoint* endpoint : {links.endpoint(), oneSided.endpoint()})
    while (endpoint && !ends()) try {
        endpoint->drain(ends);
        endpoint = nullptr;
      } catch (const transports::ConnectionLost&) {  // said once of each peer; the others need it
      } catch (const Error& e) {
        base::log(LogLevel::Error, who.self(), " leaves: ", e.what());
        return;
      }
}

std::shared_ptr<const communicator::Owners> Communicator::Impl::shared() {
  return {shared_from_this(), &owners};
}

std::string Communicator::Impl::recorded(size_t lines) const {
  std::string text = host.recorder().describe(lines);
  if (const std::string onGpu = gpu.recorder().describe(lines); !onGpu.empty())
    text += "on " + toString(settings.device) + ":\n" + onGpu;
  return text;
}

void Communicator::Impl::refuse(const Error& why) {
  const Error named(why.code(), who.self() + ": " + why.what());
  failure.tell(named);
  throw named;
}

void Communicator::Impl::stopSetup() {
  failure.fail(Error(ErrorCode::Aborted, "set-up of " + who.self() + " was stopped"), true);
}

void Communicator::Impl::connect(base::Deadline deadline) {
  try {
    communicator::requirePossible(owners);
  } catch (const Error& e) {
    refuse(e);
  }
  watchdog.listen();
  watchdog.beforeTheEnd([this] { sayGoodbye(); });
  try {
    communicator::connect(owners, settings, deadline);
  } catch (const Error& e) {
    failure.fail(e, true);
    throw;
  }
  watchdog.atExit([this](const base::Deadline& until) { drain(until); });
}

void Communicator::Impl::connectLocal(
    const std::vector<std::shared_ptr<Impl>>& ranks,
    std::vector<std::unique_ptr<transports::Endpoint>> endpoints) {
  const int size = static_cast<int>(ranks.size());
  std::vector<const communicator::Owners*> all;
  for (const auto& rank : ranks) all.push_back(&rank->owners);
  for (const communicator::Owners* rank : all) communicator::requirePossible(*rank);
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      if (i != j) endpoints[i]->connect(j, endpoints[j]->address(i));
  for (int i = 0; i < size; ++i) {
    ranks[i]->links.use(std::move(endpoints[i]));
    ranks[i]->watchdog.listen();
  }
  communicator::connectLocal(all);
}

}  // namespace tutti
