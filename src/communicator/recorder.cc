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

Recorder::Entry Recorder::ofSeries(uint64_t index) const {
  Entry entry = series_;
  entry.number += index - 1;
  entry.sequence += index - 1;
  const bool isDone = index <= repeatsDone_.load(std::memory_order_acquire);
  entry.phase = isDone ? CallPhase::Done : CallPhase::Running;
  return entry;
}

void Recorder::beginSeries(const Entry& first) {
  std::lock_guard lock(mutex_);
  endSeries();
  series_ = first;
  repeats_.store(1, std::memory_order_release);
}

void Recorder::endSeries() {
  const uint64_t repeats = repeats_.load(std::memory_order_relaxed);
  for (uint64_t i = repeats > kEntries ? repeats - kEntries : 0; i < repeats; ++i) {
    const Entry entry = ofSeries(i + 1);
    slot(entry.number) = entry;
  }
  repeatsDone_.store(0, std::memory_order_relaxed);
  repeats_.store(0, std::memory_order_relaxed);
}

void Recorder::issued(const Entry& entry) {
  std::lock_guard lock(mutex_);
  endSeries();
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
  const uint64_t repeats = repeats_.load(std::memory_order_relaxed);
  if (repeats > 0 && number == series_.number + repeats - 1)
    phase == CallPhase::Done ? repeatDone() : endSeries();
  if (running_.number == number) running_.phase = phase;
  if (slot(number).number == number) slot(number).phase = phase;
}

std::optional<Recorder::Entry> Recorder::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  if (number == 0) return std::nullopt;
  if (running_.number == number) return running_;
  const uint64_t repeats = repeats_.load(std::memory_order_acquire);
  if (number >= series_.number && number - series_.number < repeats)
    return ofSeries(number - series_.number + 1);
  const Entry& entry = slots_[number % kEntries];
  return entry.number == number ? std::optional(entry) : std::nullopt;
}

std::optional<Recorder::Entry> Recorder::findCollective(uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  const auto is = [&](const Entry& e) {
    return e.number > 0 && e.collective() && e.sequence == sequence;
  };
  if (is(running_)) return running_;
  const uint64_t repeats = repeats_.load(std::memory_order_acquire);
  if (series_.collective() && sequence >= series_.sequence && sequence - series_.sequence < repeats)
    return ofSeries(sequence - series_.sequence + 1);
  const auto found = std::ranges::find_if(slots_, is);
  return found == slots_.end() ? std::nullopt : std::optional(*found);
}

std::vector<Recorder::Entry> Recorder::recent() const {
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    const uint64_t repeats = repeats_.load(std::memory_order_acquire);
    for (uint64_t i = repeats > kEntries ? repeats - kEntries : 0; i < repeats; ++i)
      if (series_.number + i != running_.number) entries.push_back(ofSeries(i + 1));
    if (running_.number > 0) entries.push_back(running_);
    const auto isKept = [&](const Entry& entry) {
      return entry.number > 0 &&
             std::ranges::find(entries, entry.number, &Entry::number) == entries.end();
    };
    for (const Entry& entry : slots_)
      if (isKept(entry)) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.number < b.number; });
  // Beside a series the slots hold older ones.
  while (entries.size() > kEntries + 1)
    entries.erase(entries.begin() + (entries[0].phase == CallPhase::Running));
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
