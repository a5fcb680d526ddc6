#include "src/communicator/recorder.h"

#include <algorithm>
#include <cstring>

#include <tutti/reduction.h>
#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/transfer_key.h"

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

// A peer's words may hold anything.
std::string textOf(const std::array<uint64_t, 2>& words) {
  std::string text(sizeof words, '\0');
  std::memcpy(text.data(), words.data(), sizeof words);
  text.resize(std::min(text.find('\0'), text.size()));
  std::ranges::replace_if(
      text, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return text;
}

bool valid(uint64_t packed) {
  return (packed & 0xff) < plan::kCollectiveCount && (packed >> 8 & 0xff) < kDataTypeCount &&
         (packed >> 16 & 0xff) < kReduceOpCount && (packed >> 24 & 0xff) <= 1 &&
         (packed >> 32) < plan::kAlgorithmCount;
}

}  // namespace

std::array<uint64_t, 2> nameWords(const std::string& name) {
  std::array<uint64_t, 2> words{};
  static_assert(sizeof words == Reduction::kLongestName);
  std::memcpy(words.data(), name.data(), std::min(sizeof words, name.size()));
  return words;
}

uint32_t CallFacts::fingerprint() const {
  // Each word is mixed apart from the others, and differently: a processor does that at once.
  uint64_t hash = planHash;
  uint64_t place = 0;
  for (const uint64_t word :
       {pack(*this), count, blocksHash, reduction[0], reduction[1], static_cast<uint64_t>(root)})
    hash ^= base::mixBits(word + (place += base::kMixStep));
  return static_cast<uint32_t>(base::mixBits(hash)) & ~base::kExchangeBit;
}

std::string CallFacts::describe() const {
  using plan::Collective;
  std::string text = plan::toString(collective);
  if (collective != Collective::Barrier) text += base::message(" of ", count, " ", toString(type));
  if (blocksHash != 0)
    text += base::message(" in uneven blocks (fingerprint ", std::hex, blocksHash & 0xffffffff,
                          std::dec, ")");
  const std::string name = textOf(reduction);
  if (plan::isReduction(collective))
    text += base::message(", ", name.empty() ? std::string(toString(op)) : "reduction " + name);
  if (plan::hasRoot(collective)) text += base::message(", root ", root);
  text += base::message(", by ", plan::toString(algorithm));
  if (deterministic) text += ", deterministic";
  return text;
}

void CallFacts::write(base::ByteWriter& out) const {
  out.put(pack(*this))
      .put(root)
      .put(count)
      .put(blocksHash)
      .put(reduction[0])
      .put(reduction[1])
      .put(planHash);
}

CallFacts CallFacts::read(base::ByteReader& in) {
  CallFacts f;
  const auto packed = in.get<uint64_t>("call");
  if (!valid(packed)) base::fail(ErrorCode::Refused, "no such call: ", packed);
  unpack(packed, f);
  f.root = in.get<int32_t>("root");
  f.count = in.get<uint64_t>("count");
  f.blocksHash = in.get<uint64_t>("blocks");
  for (uint64_t& word : f.reduction) word = in.get<uint64_t>("reduction");
  f.planHash = in.get<uint64_t>("plan");
  return f;
}

std::string ExchangeFacts::describe() const {
  const auto part = [](uint64_t n, const char* what, uint64_t bytes) {
    return base::message(n, ' ', what, n == 1 ? " of " : "s of ", bytes, " bytes");
  };
  return part(sends, "send", bytesSent) + " and " + part(receives, "receive", bytesReceived);
}

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
