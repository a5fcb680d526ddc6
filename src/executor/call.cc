#include "src/executor/call.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/transfer_key.h"

namespace tutti::executor {
namespace {

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
         (packed >> 32) <= static_cast<uint64_t>(plan::Algorithm::File);
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

uint64_t CallFacts::blockCount(int ranks) const {
  const auto n = static_cast<uint64_t>(ranks);
  return blocksHash == 0 ? count : count / n + (count % n > 0 ? 1 : 0);
}

uint64_t CollectiveCall::bufferBytes(const plan::PlanSpec& spec) const {
  return facts.blockCount(spec.ranks) * sizeOf(facts.type) * plan::mostBlocksOf(spec);
}

void CollectiveCall::requireFits(const plan::PlanSpec& spec) const {
  TUTTI_REQUIRE(isDefined(facts.op, facts.type), toString(facts.op), " is not defined for ",
                toString(facts.type));
  if (!blocks) return;
  TUTTI_REQUIRE(spec.unevenSafe && blocks->size() == static_cast<size_t>(spec.ranks),
                blocks->size(), " blocks that differ in size for ", spec.ranks, " ranks by ",
                spec.describe());
}

plan::PlanShape CollectiveCall::shape(const plan::PlanSpec& spec, int rank,
                                      size_t slotBytes) const {
  if (blocks) return plan::PlanShape(spec, *blocks, rank, slotBytes);
  return plan::PlanShape(spec, facts.blockCount(spec.ranks), sizeOf(facts.type), slotBytes);
}

}  // namespace tutti::executor
