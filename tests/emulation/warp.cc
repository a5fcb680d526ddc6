#include "tests/emulation/warp.h"

#include <bit>

#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

std::string hex(unsigned mask) {
  char text[16];
  snprintf(text, sizeof text, "%08x", mask);
  return text;
}

void finish(Block& block, Warp& warp, Warp::Meeting& meeting, const Thread* self) {
  const unsigned lanes = meeting.arrived;
  if (meeting.complete != nullptr) meeting.complete(meeting.slots.data(), lanes);
  meeting.mask = meeting.arrived = 0;
  const size_t first = static_cast<size_t>(&warp - block.warps.data()) * 32;
  for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
    Thread* const thread = block.threads[first + static_cast<size_t>(std::countr_zero(rest))];
    if (thread != self) thread->worker->makeReady(*thread);
  }
}

bool isComplete(const Warp& warp, const Warp::Meeting& meeting) {
  return ((meeting.arrived | warp.exited) & meeting.mask) == meeting.mask;
}

Warp::Meeting& meetingOf(Warp& warp, unsigned mask, unsigned lane, Site site) {
  Warp::Meeting* unused = nullptr;
  for (auto& meeting : warp.meetings) {
    if (meeting.mask == mask) return meeting;
    if (meeting.mask == 0 && unused == nullptr) unused = &meeting;
  }
  for (const auto& meeting : warp.meetings)
    if ((meeting.mask & lane) != 0)
      failAt(site, "divergent warp: mask " + hex(mask) +
                       " here, but other lanes wait for this one " + "with mask " +
                       hex(meeting.mask) + " at " + meeting.site.file + ":" +
                       std::to_string(meeting.site.line));
  if (unused == nullptr) failAt(site, "too many groups of lanes of one warp wait at a time");
  return *unused;
}

}  // namespace

void meetInWarp(unsigned mask, void* slot, void (*complete)(void** slots, unsigned lanes),
                bool orders, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("a warp collective");
  Block& block = *thread.block;
  Warp& warp = block.warps[thread.linear / 32];
  const unsigned lane = 1u << laneOf(thread);
  if ((mask & lane) == 0)
    failAt(site, "lane " + std::to_string(laneOf(thread)) + " is not in its own mask " + hex(mask));
  Warp::Meeting& meeting = meetingOf(warp, mask, lane, site);
  if (meeting.mask == 0) {
    meeting.mask = mask;
    meeting.complete = complete;
    meeting.site = site;
  } else if (meeting.complete != complete) {
    failAt(site, std::string("divergent warp: other lanes are in another collective, at ") +
                     meeting.site.file + ":" + std::to_string(meeting.site.line));
  }
  meeting.slots[laneOf(thread)] = slot;
  meeting.arrived |= lane;
  if (orders) release(&warp.tag);
  if (isComplete(warp, meeting))
    finish(block, warp, meeting, &thread);
  else
    thread.worker->wait("a warp collective", site);
  if (orders) acquire(&warp.tag);
}

void leaveWarp(Thread& thread) {
  Block& block = *thread.block;
  Warp& warp = block.warps[thread.linear / 32];
  warp.exited |= 1u << laneOf(thread);
  for (auto& meeting : warp.meetings)
    if (meeting.arrived != 0 && isComplete(warp, meeting)) finish(block, warp, meeting, nullptr);
}

void requireFullWarp(unsigned lanes, const char* instruction) {
  if (lanes != kFullWarp)
    fail(std::string(instruction) + " by lanes " + hex(lanes) + " only: it needs the whole warp");
}

Warpgroup& warpgroupOf(Thread& thread, const char* instruction, Site site) {
  const unsigned number = thread.linear / kWarpgroup;
  if ((number + 1) * kWarpgroup > thread.block->threadCount)
    failAt(site, std::string(instruction) + " by a warpgroup of fewer than 128 threads");
  return thread.block->warpgroups[number];
}

}  // namespace tutti::emulation

namespace tutti::cuda::emulated {

using namespace emulation;

namespace {

struct Shuffle {
  uint64_t value, result;
  unsigned source;
};

/// The lane that `operand` leads to, within groups of `width` lanes; its own beyond them.
unsigned sourceLane(unsigned self, ShuffleKind lane, unsigned operand, unsigned width) {
  const unsigned first = self & ~(width - 1), end = first + width;
  if (lane == ShuffleKind::Index) return first + (operand & (width - 1));
  if (lane == ShuffleKind::Xor) return (self ^ operand) < end ? self ^ operand : self;
  if (lane == ShuffleKind::Up) return operand <= self - first ? self - operand : self;
  return operand < end - self ? self + operand : self;
}

void completeShuffle(void** slots, unsigned lanes) {
  for (unsigned i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    auto& own = *static_cast<Shuffle*>(slots[i]);
    if ((lanes >> own.source & 1) == 0)
      fail("shuffle: lane " + std::to_string(i) + " reads lane " + std::to_string(own.source) +
           ", which takes no part");
    own.result = static_cast<Shuffle*>(slots[own.source])->value;
  }
}

struct Word {
  uint64_t value;
  uint32_t result;
  Redux how;
  bool isSigned;
};

void completeVote(void** slots, unsigned lanes) {
  uint32_t ballot = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((lanes >> i & 1) != 0 && static_cast<Word*>(slots[i])->value != 0) ballot |= 1u << i;
  for (unsigned i = 0; i < 32; ++i)
    if ((lanes >> i & 1) != 0) static_cast<Word*>(slots[i])->result = ballot;
}

void completeMatch(void** slots, unsigned lanes) {
  for (unsigned i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    auto& own = *static_cast<Word*>(slots[i]);
    own.result = 0;
    for (unsigned j = 0; j < 32; ++j)
      if ((lanes >> j & 1) != 0 && static_cast<Word*>(slots[j])->value == own.value)
        own.result |= 1u << j;
  }
}

uint32_t combine(const Word& how, uint32_t a, uint32_t b) {
  const bool less = how.isSigned ? int32_t(a) < int32_t(b) : a < b;
  switch (how.how) {
    case Redux::Add: return a + b;
    case Redux::Min: return less ? a : b;
    case Redux::Max: return less ? b : a;
    case Redux::And: return a & b;
    case Redux::Or: return a | b;
    case Redux::Xor: return a ^ b;
  }
  return 0;
}

void completeRedux(void** slots, unsigned lanes) {
  const Word* first = nullptr;
  uint32_t result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const auto& word = *static_cast<Word*>(slots[i]);
    result =
        first == nullptr ? uint32_t(word.value) : combine(*first, result, uint32_t(word.value));
    if (first == nullptr) first = &word;
  }
  for (unsigned i = 0; i < 32; ++i)
    if ((lanes >> i & 1) != 0) static_cast<Word*>(slots[i])->result = result;
}

}  // namespace

void syncWarp(unsigned mask, Site site) { meetInWarp(mask, nullptr, nullptr, true, site); }

uint64_t shuffle(unsigned mask, uint64_t value, ShuffleKind lane, unsigned operand, int width,
                 Site site) {
  const unsigned self = laneOf(thisThread("a shuffle"));
  Shuffle own{value, 0, sourceLane(self, lane, operand, static_cast<unsigned>(width))};
  meetInWarp(mask, &own, completeShuffle, false, site);
  return own.result;
}

unsigned vote(unsigned mask, bool predicate, Vote how, Site site) {
  Word own{predicate ? 1u : 0u, 0, Redux::Add, false};
  // All lanes vote yes where none of those that came votes no.
  if (how == Vote::All) own.value ^= 1;
  meetInWarp(mask, &own, completeVote, false, site);
  if (how == Vote::Ballot) return own.result;
  return how == Vote::Any ? own.result != 0 : own.result == 0;
}

unsigned matchAny(unsigned mask, uint64_t value, Site site) {
  Word own{value, 0, Redux::Add, false};
  meetInWarp(mask, &own, completeMatch, false, site);
  return own.result;
}

uint32_t redux(unsigned mask, uint32_t value, Redux how, bool isSigned, Site site) {
  Word own{value, 0, how, isSigned};
  meetInWarp(mask, &own, completeRedux, false, site);
  return own.result;
}

}  // namespace tutti::cuda::emulated
