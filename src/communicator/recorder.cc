#include "src/communicator/recorder.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::communicator {
namespace {

const char* toString(CallPhase phase) {
  switch (phase) {
    case CallPhase::Launched: return "was launched";
    case CallPhase::Issued: return "waits for its turn";
    case CallPhase::Running: return "is running";
    case CallPhase::Done: return "is done";
    case CallPhase::Failed: return "failed";
  }
  return "?";
}

}  // namespace

std::string Recorder::Entry::name() const {
  return base::message(collective() ? "operation " : "exchange ", sequence);
}

std::string Recorder::Entry::describe() const {
  return std::visit([](const auto& f) { return f.describe(); }, facts);
}

std::string Recorder::Entry::nameAndCall() const { return name() + ", " + describe(); }

void Recorder::issued(const Entry& entry) {
  std::lock_guard lock(mutex_);
  slot(entry.number) = entry;
}

void Recorder::running(const Entry& entry) {
  std::lock_guard lock(mutex_);
  running_ = entry;
  running_.phase = CallPhase::Running;
}

void Recorder::waiting(uint64_t number, int peer, uint64_t bytesReceived, int64_t sinceNs) {
  std::lock_guard lock(mutex_);
  if (running_.number != number) return;
  running_.waitingFor = peer;
  running_.bytesReceived = bytesReceived;
  running_.waitingSinceNs = sinceNs;
}

void Recorder::finished(uint64_t number, CallPhase phase) {
  std::lock_guard lock(mutex_);
  if (running_.number == number) running_.phase = phase;
  if (slot(number).number == number) slot(number).phase = phase;
}

std::optional<Recorder::Entry> Recorder::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  if (number == 0) return std::nullopt;
  if (running_.number == number) return running_;
  const Entry& entry = slots_[number % kEntries];
  return entry.number == number ? std::optional(entry) : std::nullopt;
}

std::optional<Recorder::Entry> Recorder::findCollective(uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  const auto is = [&](const Entry& e) {
    return e.number > 0 && e.collective() && e.sequence == sequence;
  };
  if (is(running_)) return running_;
  const auto found = std::ranges::find_if(slots_, is);
  return found == slots_.end() ? std::nullopt : std::optional(*found);
}

std::vector<Recorder::Entry> Recorder::recent() const {
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    if (running_.number > 0) entries.push_back(running_);
    for (const Entry& entry : slots_)
      if (entry.number > 0 && entry.number != running_.number) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.number < b.number; });
  return entries;
}

std::string Recorder::describe(size_t limit) const {
  std::string text;
  const std::vector<Entry> entries = recent();
  const size_t skipped = entries.size() > limit ? entries.size() - limit : 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    if (i < skipped && e.phase != CallPhase::Running) continue;
    text += base::message("  ", e.name(), " ", toString(e.phase), ": ", e.describe());
    if (e.phase == CallPhase::Running && e.waitingFor >= 0)
      text += base::message("; waits for rank ", e.waitingFor, " with ", e.bytesReceived,
                            " bytes received");
    text += "\n";
  }
  return text;
}

}  // namespace tutti::communicator
