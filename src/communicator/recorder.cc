#include "src/communicator/recorder.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::communicator {
namespace {

const char* toString(Phase phase) {
  switch (phase) {
    case Phase::Issued: return "waits for its turn";
    case Phase::Running: return "is running";
    case Phase::Done: return "is done";
    case Phase::Failed: return "failed";
  }
  return "?";
}

uint64_t pack(const CallFacts& f) {
  return static_cast<uint64_t>(f.collective) | static_cast<uint64_t>(f.type) << 8 |
         static_cast<uint64_t>(f.op) << 16 | static_cast<uint64_t>(f.deterministic) << 24 |
         static_cast<uint64_t>(f.algorithm) << 32;
}

void unpack(uint64_t packed, CallFacts& f) {
  f.collective = static_cast<plan::Collective>(packed & 0xff);
  f.type = static_cast<DataType>(packed >> 8 & 0xff);
  f.op = static_cast<ReduceOp>(packed >> 16 & 0xff);
  f.deterministic = packed >> 24 & 1;
  f.algorithm = static_cast<plan::Algorithm>(packed >> 32 & 0xff);
}

bool valid(uint64_t packed) {
  return (packed & 0xff) < plan::kCollectiveCount && (packed >> 8 & 0xff) < kDataTypeCount &&
         (packed >> 16 & 0xff) < kReduceOpCount && (packed >> 32) < plan::kAlgorithmCount;
}

}  // namespace

uint32_t CallFacts::fingerprint() const {
  uint64_t hash = planHash;
  for (const uint64_t word : {pack(*this), count, static_cast<uint64_t>(root)}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>(hash);
}

std::string CallFacts::describe() const {
  using plan::Collective;
  std::string text = plan::toString(collective);
  if (collective != Collective::Barrier) text += base::message(" of ", count, " ", toString(type));
  if (plan::isReduction(collective)) text += base::message(", ", toString(op));
  if (plan::hasRoot(collective)) text += base::message(", root ", root);
  text += base::message(", by ", plan::toString(algorithm));
  if (deterministic) text += ", deterministic";
  return text;
}

void CallFacts::write(base::ByteWriter& out) const {
  out.put(pack(*this)).put(root).put(count).put(planHash);
}

CallFacts CallFacts::read(base::ByteReader& in) {
  CallFacts f;
  const auto packed = in.get<uint64_t>("call");
  if (!valid(packed)) base::fail(ErrorCode::Refused, "no such call: ", packed);
  unpack(packed, f);
  f.root = in.get<int32_t>("root");
  f.count = in.get<uint64_t>("count");
  f.planHash = in.get<uint64_t>("plan");
  return f;
}

void Recorder::issued(uint64_t number, const CallFacts& facts) {
  Slot& s = slot(number);
  s.number.store(0, std::memory_order_release);
  s.packed.store(pack(facts), std::memory_order_relaxed);
  s.count.store(facts.count, std::memory_order_relaxed);
  s.planHash.store(facts.planHash, std::memory_order_relaxed);
  s.root.store(facts.root, std::memory_order_relaxed);
  s.bytesReceived.store(0, std::memory_order_relaxed);
  s.waitingFor.store(-1, std::memory_order_relaxed);
  s.runningSinceNs.store(0, std::memory_order_relaxed);
  s.phase.store(Phase::Issued, std::memory_order_relaxed);
  s.number.store(number, std::memory_order_release);
}

void Recorder::running(uint64_t number, int64_t nowNs) {
  slot(number).runningSinceNs.store(nowNs, std::memory_order_relaxed);
  slot(number).phase.store(Phase::Running, std::memory_order_release);
}

void Recorder::waiting(uint64_t number, int peer, uint64_t bytesReceived) {
  slot(number).waitingFor.store(peer, std::memory_order_relaxed);
  slot(number).bytesReceived.store(bytesReceived, std::memory_order_relaxed);
}

void Recorder::finished(uint64_t number, Phase phase) {
  slot(number).phase.store(phase, std::memory_order_release);
}

std::optional<Recorder::Entry> Recorder::find(uint64_t number) const {
  const Slot& s = slot(number);
  if (number == 0 || s.number.load(std::memory_order_acquire) != number) return std::nullopt;
  Entry e;
  e.number = number;
  unpack(s.packed.load(std::memory_order_relaxed), e.facts);
  e.facts.count = s.count.load(std::memory_order_relaxed);
  e.facts.planHash = s.planHash.load(std::memory_order_relaxed);
  e.facts.root = s.root.load(std::memory_order_relaxed);
  e.phase = s.phase.load(std::memory_order_acquire);
  e.waitingFor = s.waitingFor.load(std::memory_order_relaxed);
  e.bytesReceived = s.bytesReceived.load(std::memory_order_relaxed);
  e.runningSinceNs = s.runningSinceNs.load(std::memory_order_acquire);
  if (s.number.load(std::memory_order_acquire) != number) return std::nullopt;
  return e;
}

std::vector<Recorder::Entry> Recorder::recent() const {
  std::vector<Entry> entries;
  for (const Slot& s : slots_)
    if (const auto entry = find(s.number.load(std::memory_order_acquire)))
      entries.push_back(*entry);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.number < b.number; });
  return entries;
}

std::string Recorder::describe(size_t limit) const {
  std::string text;
  std::vector<Entry> entries = recent();
  if (entries.size() > limit)
    entries.erase(entries.begin(), entries.end() - static_cast<long>(limit));
  for (const Entry& e : entries) {
    text +=
        base::message("  operation ", e.number, " ", toString(e.phase), ": ", e.facts.describe());
    if (e.phase == Phase::Running && e.waitingFor >= 0)
      text += base::message("; waits for rank ", e.waitingFor, " with ", e.bytesReceived,
                            " bytes received");
    text += "\n";
  }
  return text;
}

}  // namespace tutti::communicator
