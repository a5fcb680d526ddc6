#pragma once

// Two ranks add their words up, by messages that carry their flags: a message of round r has flag
// r + 1, and the receiver looks at it until the flag is right. Two slots in turn: a rank sends
// round r + 2 only after it has received r + 1, which the other sent after it had read r.
//
// LL: 16 bytes are two words, each with a flag behind it; both flags are checked, since the halves
// may arrive apart. LL128: a line of 128 bytes is 15 words of 8 bytes and one flag, written and
// read by eight lanes at once.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::kernels {

using namespace cuda;

enum class ExchangeBug {
  None,
  OneFlagChecked,    // LL: of two
  OneSlot,           // a message is overwritten before it is read
  OldFlag,           // the flag does not change from round to round
  LanesApart,        // LL128: every lane's 16 bytes by themselves
  NoVote,            // LL128: only the lane with the flag waits
  UnalignedMessages  // LL: 16 bytes at a multiple of 8
};

struct ExchangeArguments {
  void *inbox, *peerInbox;  // 2 slots of slotBytes
  uint64_t slotBytes;
  uint32_t* words;  // of LL; of LL128 as 64-bit words
  uint32_t count;
  int rounds;
};

template <ExchangeBug kBug>
TUTTI_DEVICE uint32_t exchangeFlag(int round) {
  return kBug == ExchangeBug::OldFlag ? 1u : uint32_t(round) + 1;
}

template <class Message, ExchangeBug kBug>
TUTTI_DEVICE Message* exchangeSlot(void* inbox, const ExchangeArguments& exchange, int round) {
  const uint64_t slot = kBug == ExchangeBug::OneSlot ? 0 : uint64_t(round % 2);
  const uint64_t off = kBug == ExchangeBug::UnalignedMessages ? 8 : 0;
  return reinterpret_cast<Message*>(static_cast<char*>(inbox) + slot * exchange.slotBytes + off);
}

template <ExchangeBug kBug>
__global__ void exchangeLL(ExchangeArguments exchange) {
  const uint32_t messages = exchange.count / 2;
  for (int round = 0; round < exchange.rounds; ++round) {
    const uint32_t flag = exchangeFlag<kBug>(round);
    uint4* const out = exchangeSlot<uint4, kBug>(exchange.peerInbox, exchange, round);
    const uint4* const in = exchangeSlot<uint4, kBug>(exchange.inbox, exchange, round);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < messages;
         i += gridDim.x * blockDim.x) {
      uint32_t* const words = exchange.words + 2 * i;
      ptx::stVolatile(out + i, make_uint4(words[0], flag, words[1], flag));
      uint4 got = ptx::ldVolatile(in + i);
      while (got.y != flag || (kBug != ExchangeBug::OneFlagChecked && got.w != flag)) {
        spinHint();
        got = ptx::ldVolatile(in + i);
      }
      words[0] += got.x;
      words[1] += got.z;
    }
  }
}

/// The receiver's side of one line for each eight lanes.
template <ExchangeBug kBug>
TUTTI_DEVICE ulonglong2 receiveLine(const ulonglong2* from, uint64_t flag) {
  const bool hasFlag = threadIdx.x % 8 == 7;
  ulonglong2 got;
  bool arrived = false;
  do {
    if (kBug == ExchangeBug::LanesApart)
      got = ptx::ldVolatile(from);
    else
      got = ptx::loadLine(from);
    arrived = !hasFlag || got.y == flag;
    if (!arrived) spinHint();
  } while (kBug != ExchangeBug::NoVote && !__all_sync(~0u, arrived));
  return got;
}

/// One warp; each lane has two words of a line, the eighth of each line one.
template <ExchangeBug kBug>
__global__ void exchangeLL128(ExchangeArguments exchange) {
  const uint32_t lane = threadIdx.x, lines = exchange.count / 15;
  const bool hasFlag = lane % 8 == 7;
  auto* const words = reinterpret_cast<uint64_t*>(exchange.words);
  for (int round = 0; round < exchange.rounds; ++round) {
    const uint64_t flag = exchangeFlag<kBug>(round);
    auto* const out = exchangeSlot<ulonglong2, kBug>(exchange.peerInbox, exchange, round);
    const auto* const in = exchangeSlot<ulonglong2, kBug>(exchange.inbox, exchange, round);
    for (uint32_t line = lane / 8; line < lines; line += 4) {
      uint64_t* const mine = words + line * 15 + lane % 8 * 2;
      const ulonglong2 sent = make_ulonglong2(mine[0], hasFlag ? flag : mine[1]);
      if (kBug == ExchangeBug::LanesApart)
        ptx::stVolatile(out + line * 8 + lane % 8, sent);
      else
        ptx::storeLine(out + line * 8 + lane % 8, sent);
      const ulonglong2 got = receiveLine<kBug>(in + line * 8 + lane % 8, flag);
      mine[0] += got.x;
      if (!hasFlag) mine[1] += got.y;
    }
  }
}

}  // namespace tutti::emulation::kernels
