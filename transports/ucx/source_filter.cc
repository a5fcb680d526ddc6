#include "transports/ucx/source_filter.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace tutti::transports::ucx {
namespace {

using Code = std::vector<sock_filter>;

// Of a socket of TCP a filter sees the segment; the header of IP lies before it, at kIp.
constexpr auto kIp = static_cast<uint32_t>(SKF_NET_OFF);
constexpr uint32_t kSourceOf4 = kIp + 12, kSourceOf6 = kIp + 8;
constexpr uint32_t kPass = std::numeric_limits<uint32_t>::max(), kDrop = 0;
constexpr size_t kWords = 4;  // of an address of IPv6

/// `yes` and `no`: how many instructions are left out when it holds, and when it does not.
sock_filter test(int operation, uint32_t value, size_t yes, size_t no) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | operation | BPF_K), value,
                  static_cast<uint8_t>(yes), static_cast<uint8_t>(no));
}
sock_filter leaveOut(size_t instructions) {
  return BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(instructions));
}
sock_filter load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter end(uint32_t verdict) { return BPF_STMT(BPF_RET | BPF_K, verdict); }

void append(Code& code, const Code& more) { code.insert(code.end(), more.begin(), more.end()); }

using Words = std::array<uint32_t, kWords>;

Words wordsOf(const SourceAddress& address) {
  Words words;
  std::memcpy(words.data(), address.data(), sizeof words);
  for (uint32_t& word : words) word = ntohl(word);
  return words;
}

bool isOf4(const Words& words) { return words[0] == 0 && words[1] == 0 && words[2] == 0xffff; }

// ---- IPv4: a search in ranges

struct AddressRange {
  uint32_t first, last;
};

/// `addresses` in order.
std::vector<AddressRange> rangesOf(const std::vector<uint32_t>& addresses) {
  std::vector<AddressRange> ranges;
  for (const uint32_t each : addresses)
    if (!ranges.empty() && each - ranges.back().last == 1)
      ranges.back().last = each;
    else
      ranges.push_back({each, each});
  while (ranges.size() > kMostRanges) {
    auto closest = ranges.begin();
    for (auto at = ranges.begin(); at + 1 != ranges.end(); ++at)
      if (at[1].first - at->last < closest[1].first - closest->last) closest = at;
    closest->last = closest[1].last;
    ranges.erase(closest + 1);
  }
  return ranges;
}

/// Of what was loaded.
Code searchIn(std::span<const AddressRange> ranges) {
  if (ranges.empty()) return {end(kDrop)};
  if (ranges.size() == 1)
    return {test(BPF_JGE, ranges[0].first, 0, 2), test(BPF_JGT, ranges[0].last, 1, 0), end(kPass),
            end(kDrop)};
  const size_t middle = ranges.size() / 2;
  const Code below = searchIn(ranges.first(middle));
  Code code{test(BPF_JGE, ranges[middle].first, 0, 1), leaveOut(below.size())};
  append(code, below);
  append(code, searchIn(ranges.subspan(middle)));
  return code;
}

// ---- IPv6: one prefix after another

/// All of `words` words.
struct Prefixes {
  std::set<Words> starts;
  size_t words = kWords;
};

Prefixes prefixesOf(const std::set<Words>& addresses) {
  Prefixes prefixes{addresses};
  while (prefixes.starts.size() > kMostPrefixes) {
    std::set<Words> shorter;
    --prefixes.words;
    for (Words start : prefixes.starts) {
      start[prefixes.words] = 0;
      shorter.insert(start);
    }
    prefixes.starts = std::move(shorter);
  }
  return prefixes;
}

Code searchIn(const Prefixes& prefixes) {
  Code code;
  for (const Words& start : prefixes.starts) {
    for (size_t word = 0; word < prefixes.words; ++word) {
      code.push_back(load(kSourceOf6 + static_cast<uint32_t>(word * sizeof(uint32_t))));
      code.push_back(test(BPF_JEQ, start[word], 0, 2 * (prefixes.words - word) - 1));
    }
    code.push_back(end(kPass));
  }
  code.push_back(end(kDrop));
  return code;
}

}  // namespace

SourceAddress sourceAddress(const in6_addr& address) {
  SourceAddress bytes;
  std::memcpy(bytes.data(), &address, sizeof bytes);
  return bytes;
}

SourceAddress sourceAddress(const in_addr& address) {
  SourceAddress bytes{};
  bytes[10] = bytes[11] = std::byte{0xff};
  std::memcpy(&bytes[12], &address, sizeof address);
  return bytes;
}

std::optional<SourceAddress> sourceAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return sourceAddress(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.sa_family == AF_INET6)
    return sourceAddress(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return std::nullopt;
}

std::vector<sock_filter> sourceFilter(const std::set<SourceAddress>& admitted) {
  std::vector<uint32_t> of4;  // in order, as the set is
  std::set<Words> of6;
  for (const SourceAddress& each : admitted) {
    const Words words = wordsOf(each);
    if (isOf4(words))
      of4.push_back(words[kWords - 1]);
    else
      of6.insert(words);
  }
  const Code search6 = searchIn(prefixesOf(of6));
  Code code{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kIp), BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
            test(BPF_JEQ, 6, 1, 0), leaveOut(search6.size())};
  append(code, search6);
  append(code, {test(BPF_JEQ, 4, 1, 0), end(kDrop), load(kSourceOf4)});
  append(code, searchIn(rangesOf(of4)));
  return code;
}

}  // namespace tutti::transports::ucx
