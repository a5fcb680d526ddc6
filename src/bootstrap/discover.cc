// discover: explicit arguments, then the launchers of launchers.cc, then one rank alone.
//
// Where a launcher's ranks meet, and what they must prove:
//   TUTTI_UNIQUE_ID              the id's address and secret
//   TUTTI_JOB_KEY and an address TCP at that address of rank 0's host; the key
//   one host                     a Unix socket whose name follows from the address or, without one,
//                                from what tells the launcher's jobs apart; the same user, and the
//                                key if there is one
//   an address alone, else       refused, unless TUTTI_ALLOW_UNAUTHENTICATED=1

#include "src/bootstrap/discover.h"

#include <tutti/launch.h>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/printable.h"
#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/job_key.h"
#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

std::optional<std::string> value(const Lookup& lookup, const char* name) {
  auto found = lookup(name);
  if (found && found->empty()) found.reset();
  return found;
}

std::optional<std::string> jobKey(const Lookup& lookup, int rank) {
  auto key = value(lookup, "TUTTI_JOB_KEY");
  if (key) requireJobKey(*key, rank);
  return key;
}

UniqueId idFromHex(const std::string& hex) {
  try {
    return UniqueId::fromHex(hex);
  } catch (const Error& error) {
    base::fail(ErrorCode::InvalidArgument, "TUTTI_UNIQUE_ID: ", error.what());
  }
}

/// Hosts may have different names for the interface to one link.
std::string withoutZone(const std::string& host) { return host.substr(0, host.find('%')); }

/// What all ranks of a run have in common, and ranks of another run have not.
std::string runSeed(const LaunchFacts& facts) {
  if (!facts.host) return facts.launcher + ";" + facts.run;
  return base::message(withoutZone(*facts.host), ":", *facts.port, ";", facts.run);
}

/// What of that a key is bound to: the address, or the launcher alone. Two runs with one key differ
/// in their job ids, and can name each other.
std::string placeOf(const LaunchFacts& facts) {
  return facts.host ? base::message(withoutZone(*facts.host), ":", *facts.port) : facts.launcher;
}

/// The launcher's own store listens at MASTER_PORT when it says so; Tutti takes the next one.
uint16_t rendezvousPort(const LaunchFacts& facts, const Lookup& lookup) {
  const bool taken =
      value(lookup, "TORCHELASTIC_USE_AGENT_STORE") == "True" && !value(lookup, "TUTTI_ADDRESS");
  TUTTI_REQUIRE(!taken || *facts.port < 65535, "MASTER_PORT=", *facts.port,
                " leaves no port after it: set TUTTI_ADDRESS=host:port");
  return static_cast<uint16_t>(*facts.port + (taken ? 1 : 0));
}

Rendezvous withKey(const LaunchFacts& facts, uint16_t port, const std::string& key) {
  return {.address = wire::resolve(*facts.host, port),
          .credentials = {.secret = secretOfKey(key, placeOf(facts)),
                          .job = wire::digest<16>("job", runSeed(facts))},
          .openedByRankZero = true};
}

/// For ranks of one host and one user.
Rendezvous onThisHost(const LaunchFacts& facts, const std::optional<std::string>& key) {
  const std::string seed = runSeed(facts);
  return {.address = wire::derivedUnixAddress(seed),
          .credentials = {.secret = key ? secretOfKey(*key, placeOf(facts))
                                        : wire::digest<32>("no key", seed),
                          .job = wire::digest<16>("job", seed),
                          .sameUser = true},
          .openedByRankZero = true};
}

/// Who says which rank this is. `tutti run` gives an id, too: without one its variables are set by
/// hand.
std::string whoSaysTheRank(const LaunchFacts& facts) {
  return facts.launcher == "tutti run" ? "TUTTI_RANK" : facts.launcher;
}

Rendezvous withoutKey(const LaunchFacts& facts, const Lookup& lookup) {
  if (value(lookup, "TUTTI_ALLOW_UNAUTHENTICATED") == "1") {
    base::log(LogLevel::Warning, "TUTTI_ALLOW_UNAUTHENTICATED=1: anybody who reaches ",
              base::printable(*facts.host), " may join this job");
    const std::string seed = runSeed(facts);
    return {.address = wire::resolve(*facts.host, rendezvousPort(facts, lookup)),
            .credentials = {.secret = wire::digest<32>("no key", seed),
                            .job = wire::digest<16>("job", seed)},
            .openedByRankZero = true};
  }
  if (!facts.oneHost)
    base::fail(ErrorCode::Refused, whoSaysTheRank(facts), " says rank ", facts.rank, " of ",
               facts.size,
               ", which may be on several hosts, and nothing says who may join: set "
               "TUTTI_JOB_KEY to one secret on all ranks (or TUTTI_ALLOW_UNAUTHENTICATED=1)");
  return onThisHost(facts, {});
}

/// Of ranks without an address. Those of several hosts need a key, too.
std::string whatIsMissing(const LaunchFacts& facts, bool hasKey) {
  if (facts.oneHost || hasKey)
    return "nothing says where they meet: set TUTTI_UNIQUE_ID or " + facts.addressVariables;
  return "nothing says where they meet and who may join: set " + facts.addressVariables +
         ", and TUTTI_JOB_KEY to one secret on all ranks (or TUTTI_UNIQUE_ID alone)";
}

/// Two jobs of one address, key and name may mix, where both start at the same time. torchrun's own
/// store listens at the port, so that no other job's does.
bool mayBeAnothersToo(const LaunchFacts& facts, const Lookup& lookup) {
  return !facts.namesJob && value(lookup, "TORCHELASTIC_USE_AGENT_STORE") != "True";
}

void warnOfDoubles(const LaunchFacts& facts) {
  base::log(LogLevel::Warning, "nothing tells this job from another one that meets at ",
            base::printable(placeOf(facts)),
            " with the same key: set TUTTI_JOB_ID to a text of this job's own on all its ranks");
}

Identity identify(const LaunchFacts& facts, const Lookup& lookup) {
  Identity identity{.rank = facts.rank,
                    .size = facts.size,
                    .source = facts.launcher,
                    .malformed = facts.malformed};
  if (!facts.contradiction.empty())
    base::log(LogLevel::Warning, facts.launcher, " says that this process is alone, and ",
              facts.contradiction, ": it is taken to be alone");
  if (const auto hex = value(lookup, "TUTTI_UNIQUE_ID")) {
    identity.id = idFromHex(*hex);
  } else if (facts.size != 1) {
    const auto key = jobKey(lookup, facts.rank);
    const bool known = facts.oneHost && !facts.run.empty();
    TUTTI_REQUIRE(facts.host || known, whoSaysTheRank(facts), " says rank ", facts.rank, " of ",
                  facts.size, ", and ", whatIsMissing(facts, key.has_value()));
    Rendezvous point = !facts.host ? onThisHost(facts, key)
                       : key       ? withKey(facts, rendezvousPort(facts, lookup), *key)
                                   : withoutKey(facts, lookup);
    point.mayBeAnothersToo = mayBeAnothersToo(facts, lookup);
    if (point.mayBeAnothersToo && facts.rank == 0) warnOfDoubles(facts);
    identity.id = encode(point);
  }
  return identity;
}

Identity fromLauncher(const LaunchFacts& facts, const Lookup& lookup) {
  Identity identity;
  try {
    identity = identify(facts, lookup);
  } catch (const Error&) {
    if (!facts.malformed) throw;
  }
  if (facts.malformed && identity.id == UniqueId{}) throw Error(*facts.malformed);
  return identity;
}

}  // namespace

std::string Identity::describe() const {
  if (rank < 0) return "a rank";
  return size < 0 ? base::message("rank ", rank) : base::message("rank ", rank, " of ", size);
}

Identity discover(const CommunicatorOptions& options, const Lookup& lookup) {
  if (options.id) {
    requireMembership(options.rank, options.size);
    decode(*options.id);
    return {.rank = options.rank,
            .size = options.size,
            .id = *options.id,
            .source = "explicit arguments"};
  }
  TUTTI_REQUIRE(options.rank == -1 && options.size == -1, "rank ", options.rank, " and size ",
                options.size, " are given without an id");
  if (const auto facts = readLaunchFacts(lookup)) return fromLauncher(*facts, lookup);
  return {.rank = 0, .size = 1, .source = "no launcher"};
}

UniqueId idAt(const std::string& address, const Lookup& lookup) {
  const size_t colon = address.rfind(':');
  TUTTI_REQUIRE(colon != std::string::npos && colon > 0, "\"", base::printable(address),
                "\" is not host:port");
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const LaunchFacts facts{.run = value(lookup, "TUTTI_JOB_ID").value_or(""),
                          .host = host,
                          .port = parseVariable("the port", address.substr(colon + 1), 1, 65535)};
  const auto key = jobKey(lookup, 0);
  return encode(key ? withKey(facts, static_cast<uint16_t>(*facts.port), *key)
                    : onThisHost(facts, {}));
}

Identity discover(const CommunicatorOptions& options) {
  Identity identity = discover(options, processVariable);
  base::log(LogLevel::Debug, identity.describe(), ", says ", identity.source);
  return identity;
}

}  // namespace tutti::bootstrap

namespace tutti {

UniqueId UniqueId::at(const std::string& address) {
  return bootstrap::idAt(address, bootstrap::processVariable);
}

std::optional<LaunchedRank> launchedRank() {
  const auto facts = bootstrap::readLaunchFacts(bootstrap::processVariable);
  if (!facts) return std::nullopt;
  if (facts->malformed) {  // the caller will hardly come to create(), which tells the others
    const std::chrono::milliseconds time(base::lenientEnv().setupTimeoutMs);
    bootstrap::join(bootstrap::discover({}), base::Deadline::after(time));
  }
  return LaunchedRank{facts->launcher, facts->rank, facts->size};
}

}  // namespace tutti
