#include "transports/ucx/quirks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <ostream>
#include <system_error>

namespace tutti::transports::ucx {
namespace {

constexpr UcxVersion kNever{};

constexpr std::array<KnownQuirk, 8> kQuirks{
    {{Quirk::ShortSettingNames,
      "setting names",
      "a transport's settings have no prefix when a program makes them",
      "names without TCP_",
      {1, 17, 0}},
     {Quirk::AbortsOnHalfSentMessage,
      "half-sent message",
      "it aborts when the kernel gives up a TCP connection while part of a zero-copy message is "
      "unsent and something is unread",
      "UCX_TCP_MAX_IOV=1, so that it copies",
      {1, 18, 1}},
     {Quirk::AbortsWithoutDescriptors, "no descriptor",
      "it aborts when a peer connects and no descriptor is free",
      "a descriptor is left for each peer that may connect", kNever},
     {Quirk::AbortsOnHalfMadeConnections, "half-made connection",
      "it aborts when a connection is closed, or a worker destroyed, before the handshake is over",
      "such a worker stays until the process ends", kNever},
     {Quirk::RepeatsItsLastWord, "last word",
      "it tries to say that a TCP connection closes for as long as the socket is full",
      "full sockets are shut down before", kNever},
     {Quirk::AbortsOnUnreachableAnswer, "unreachable answer",
      "it aborts when it answers a peer that it cannot reach", "reachability probes go first",
      kNever},
     {Quirk::CallsMissingHandlers, "missing handler",
      "it calls what it finds in a gap of the ids of active messages",
      "ids begin with 0 and have no gap", kNever},
     {Quirk::AbortsOnImpatience, "impatience",
      "it aborts when it gives up a peer of unreliable datagrams that it has not reached yet",
      "UCX_UD_TIMEOUT=3600s", kNever}}};

}  // namespace

std::ostream& operator<<(std::ostream& out, const UcxVersion& version) {
  return out << version.major << "." << version.minor << "." << version.release;
}

std::optional<UcxVersion> parseUcxVersion(std::string_view text) {
  UcxVersion version;
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  for (unsigned* const part : {&version.major, &version.minor, &version.release}) {
    if (part != &version.major && (at == end || *at++ != '.')) return std::nullopt;
    const auto [rest, error] = std::from_chars(at, end, *part);
    if (error != std::errc()) return std::nullopt;
    at = rest;
  }
  return version;
}

std::span<const KnownQuirk> knownQuirks() { return kQuirks; }

bool has(const UcxVersion& version, Quirk quirk) {
  const UcxVersion& mended = kQuirks[static_cast<size_t>(quirk)].mended;
  return mended == kNever || version < mended;
}

std::vector<KnownQuirk> quirksOf(const UcxVersion& version) {
  std::vector<KnownQuirk> all;
  std::ranges::copy_if(kQuirks, std::back_inserter(all),
                       [&](const KnownQuirk& each) { return has(version, each.quirk); });
  return all;
}

}  // namespace tutti::transports::ucx
