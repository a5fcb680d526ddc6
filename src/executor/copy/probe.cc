#include "src/executor/copy/probe.h"

#include "src/base/integers.h"
#include "src/device/cuda.h"
#include "src/executor/copy/stream_queue.h"

namespace tutti::executor::copy {
namespace {

using device::OnDevice;
using transports::p2p::kLine;
using transports::p2p::kProbeBytes;
using transports::p2p::ProbeFinding;
using transports::p2p::ProbeState;

constexpr uint32_t kWords = kProbeBytes / sizeof(uint32_t);

/// Word `index` of what rank `from` writes to rank `to`.
uint32_t patternWord(uint32_t number, int from, int to, uint32_t index) {
  const uint64_t pair = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  return static_cast<uint32_t>(
      base::mixBits(base::mixBits(pair) + (static_cast<uint64_t>(number) << 32 | index)));
}

}  // namespace

CopyProbe::CopyProbe(const transports::p2p::P2pEndpoint& endpoint, uint32_t number)
    : endpoint_(endpoint),
      number_(number),
      waitFlags_(waitFlagsOf(endpoint.device())),
      setup_(endpoint.device()),
      sent_(endpoint.device(), static_cast<size_t>(endpoint.size()) * kProbeBytes + sizeof number),
      seen_(kWords) {
  const int rank = endpoint.rank(), size = endpoint.size();
  std::vector<uint32_t> words;
  for (int peer = 0; peer < size; ++peer)
    for (uint32_t i = 0; i < kWords; ++i) words.push_back(patternWord(number, rank, peer, i));
  words.push_back(number);
  sent_.upload(words.data(), sent_.bytes());
  OnDevice on(endpoint.device());
  StreamQueue queue(setup_.get(), waitFlags_);
  for (int peer = 0; peer < size; ++peer) {
    if (!isProbed(peer)) continue;
    unsigned char* const there = endpoint.there(peer).probe();
    const auto at = static_cast<size_t>(peer) * kProbeBytes;
    queue.copy(there + kLine, sent_.data() + at, kProbeBytes);
    queue.copy(there, sent_.data() + sent_.bytes() - sizeof number, sizeof number);
  }
  setup_.wait();
}

bool CopyProbe::isProbed(int peer) const {
  return peer != endpoint_.rank() && endpoint_.isConnected(peer) && !endpoint_.isKept(peer);
}

// As for a mark, the stream waits for the flag, when that is there, and reads what is behind it.
ProbeFinding CopyProbe::lookAt(int peer) {
  const unsigned char* const from = endpoint_.here(peer).probe();
  StreamQueue queue(setup_.get(), waitFlags_);
  queue.copy(seen_.data(), from, sizeof number_);
  setup_.wait();
  if (*seen_.data() != number_) return {ProbeState::Late};
  queue.awaitAtLeast(reinterpret_cast<const uint32_t*>(from), number_);
  queue.copy(seen_.data(), from + kLine, kProbeBytes);
  setup_.wait();
  for (uint32_t i = 0; i < kWords; ++i)
    if (seen_.data()[i] != patternWord(number_, peer, endpoint_.rank(), i))
      return {ProbeState::Wrong, i};
  return {ProbeState::Right};
}

std::vector<std::string> CopyProbe::finish() {
  OnDevice on(endpoint_.device());
  std::vector<std::string> faults(static_cast<size_t>(endpoint_.size()));
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (isProbed(peer)) faults[peer] = endpoint_.faultOf(peer, lookAt(peer));
  return faults;
}

}  // namespace tutti::executor::copy
