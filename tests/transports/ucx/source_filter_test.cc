// The filter of a listening socket, run here on headers of IP: it passes what it shall pass, and
// nothing else, however many addresses there are.

#include "transports/ucx/source_filter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>

#include "tests/support/leftovers.h"

namespace tutti::tests {
namespace {

using transports::ucx::kMostPrefixes;
using transports::ucx::kMostRanges;
using transports::ucx::SourceAddress;
using transports::ucx::sourceAddress;
using transports::ucx::sourceFilter;
using Sources = std::set<SourceAddress>;

SourceAddress addressOf(const std::string& text) {
  in_addr of4{};
  if (::inet_pton(AF_INET, text.c_str(), &of4) == 1) return sourceAddress(of4);
  in6_addr of6{};
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &of6), 1) << text;
  return sourceAddress(of6);
}

SourceAddress of4(uint32_t number) { return sourceAddress(in_addr{htonl(number)}); }

bool isOf4(const SourceAddress& address) {
  return std::equal(address.begin(), address.begin() + 12, addressOf("0.0.0.0").begin());
}

/// A header of IP from that address.
std::array<uint8_t, 40> headerFrom(const SourceAddress& source) {
  std::array<uint8_t, 40> header{};
  header[0] = isOf4(source) ? 0x45 : 0x60;
  if (isOf4(source))
    std::memcpy(&header[12], &source[12], 4);
  else
    std::memcpy(&header[8], source.data(), source.size());
  return header;
}

/// What the kernel does of it; as many instructions as `steps` counts.
bool passes(const std::vector<sock_filter>& code, const SourceAddress& source, size_t& steps) {
  const auto header = headerFrom(source);
  uint32_t a = 0;
  steps = 0;
  for (size_t at = 0; at < code.size(); ++at, ++steps) {
    const sock_filter& each = code[at];
    const uint32_t offset = each.k - static_cast<uint32_t>(SKF_NET_OFF);
    const auto jump = [&](bool holds) { at += holds ? each.jt : each.jf; };
    switch (each.code) {
      case BPF_LD | BPF_B | BPF_ABS: a = header.at(offset); break;
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, &header.at(offset), sizeof a);
        a = ntohl(a);
        break;
      case BPF_ALU | BPF_RSH | BPF_K: a >>= each.k; break;
      case BPF_JMP | BPF_JA: at += each.k; break;
      case BPF_JMP | BPF_JEQ | BPF_K: jump(a == each.k); break;
      case BPF_JMP | BPF_JGE | BPF_K: jump(a >= each.k); break;
      case BPF_JMP | BPF_JGT | BPF_K: jump(a > each.k); break;
      case BPF_RET | BPF_K: return each.k != 0;
      default: ADD_FAILURE() << "instruction " << each.code; return false;
    }
  }
  ADD_FAILURE() << "it runs out of its end";
  return false;
}

bool passes(const Sources& admitted, const std::string& source) {
  size_t steps = 0;
  return passes(sourceFilter(admitted), addressOf(source), steps);
}

TEST(UcxSourceFilter, PassesNobodyAtFirst) {
  for (const char* source : {"0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "fe80::1"})
    EXPECT_FALSE(passes(Sources{}, source)) << source;
}

TEST(UcxSourceFilter, PassesTheseAlone) {
  const Sources admitted{addressOf("10.9.0.1"), addressOf("10.9.0.2"), addressOf("192.0.2.255"),
                         addressOf("fd00::2"), addressOf("fe80::fc:ff:fe00:1")};
  for (const char* source :
       {"10.9.0.1", "10.9.0.2", "192.0.2.255", "fd00::2", "fe80::fc:ff:fe00:1"})
    EXPECT_TRUE(passes(admitted, source)) << source;
  for (const char* source : {"10.9.0.0", "10.9.0.3", "10.9.1.2", "192.0.2.254", "0.0.0.0",
                             "fd00::", "fd00::3", "fd00:0:0:1::2", "fe80::fc:ff:fe01:1", "::"})
    EXPECT_FALSE(passes(admitted, source)) << source;
}

// An address of IPv4 within one of IPv6 is none of IPv4 on the wire.
TEST(UcxSourceFilter, TellsTheFamiliesApart) {
  const Sources admitted{addressOf("fd00::a09:1")};
  EXPECT_FALSE(passes(admitted, "10.9.0.1"));
  EXPECT_FALSE(passes(Sources{addressOf("10.9.0.1")}, "fd00::a09:1"));
}

// At the edges of the numbers, and of jumps.
TEST(UcxSourceFilter, PassesExactlyWhatIsAdmittedOfUpToItsLimits) {
  std::mt19937 random(testSeed());
  for (const size_t count : {1U, 2U, 3U, 7U, 100U, unsigned{kMostRanges}}) {
    std::set<uint32_t> numbers;
    if (count > 1) numbers = {0, ~0U};
    while (numbers.size() < count) numbers.insert(static_cast<uint32_t>(random()));
    Sources admitted;
    for (const uint32_t each : numbers) admitted.insert(of4(each));
    const auto code = sourceFilter(admitted);
    size_t steps = 0;
    for (const uint32_t each : numbers) {
      EXPECT_TRUE(passes(code, of4(each), steps)) << each << " of " << count;
      EXPECT_LE(steps, 24u) << "a search takes few steps";
      for (const uint32_t near : {each - 1, each + 1})
        EXPECT_EQ(passes(code, of4(near), steps), numbers.contains(near)) << near;
    }
  }
}

// Hosts of a rack have numbers one after the other: they are one range.
TEST(UcxSourceFilter, NeighboursCostNothing) {
  Sources admitted;
  for (uint32_t host = 0; host < 10'000; ++host) admitted.insert(of4(0x0a000000 + host));
  const auto code = sourceFilter(admitted);
  EXPECT_LT(code.size(), 16u);
  size_t steps = 0;
  EXPECT_TRUE(passes(code, of4(0x0a000000), steps) && passes(code, of4(0x0a000000 + 9999), steps));
  EXPECT_FALSE(passes(code, of4(0x09ffffff), steps) ||
               passes(code, of4(0x0a000000 + 10'000), steps));
}

TEST(UcxSourceFilter, BeyondItsLimitsTheClosestArePutTogether) {
  Sources admitted{addressOf("172.16.0.1"), addressOf("172.16.0.3"), addressOf("fd00::1")};
  for (uint32_t host = 0; host < kMostRanges - 1; ++host)
    admitted.insert(of4(0x0a000000 + host * 1000));
  for (uint32_t host = 0; host < kMostPrefixes; ++host)
    admitted.insert(addressOf("fd01:0:0:1::" + std::to_string(host)));
  EXPECT_TRUE(passes(admitted, "172.16.0.2")) << "what lies between the closest";
  EXPECT_FALSE(passes(admitted, "10.0.0.1"));
  for (const char* source : {"172.16.0.1", "172.16.0.3", "fd00::1", "fd01:0:0:1::47"})
    EXPECT_TRUE(passes(admitted, source)) << source;
  EXPECT_TRUE(passes(admitted, "fd01:0:0:1::ffff")) << "one prefix";
  EXPECT_FALSE(passes(admitted, "fd01:0:0:2::1"));
  EXPECT_FALSE(passes(admitted, "fd02::1"));
}

// A kernel takes 4096 instructions at most, and translates them into twice as many bytes as an
// older one's net.core.optmem_max allows.
TEST(UcxSourceFilter, StaysSmallWhateverIsAdmitted) {
  std::mt19937 random(testSeed());
  Sources admitted;
  for (int i = 0; i < 20'000; ++i) {
    admitted.insert(of4(static_cast<uint32_t>(random())));
    SourceAddress any;
    for (std::byte& byte : any) byte = static_cast<std::byte>(random());
    admitted.insert(any);
  }
  const auto code = sourceFilter(admitted);
  EXPECT_LT(code.size(), 1500u);
  size_t steps = 0;
  for (const SourceAddress& each : admitted) ASSERT_TRUE(passes(code, each, steps));
}

}  // namespace
}  // namespace tutti::tests
