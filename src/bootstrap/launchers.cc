#include "src/bootstrap/launchers.h"

#include <sys/socket.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/launching_process.h"

namespace tutti::bootstrap {
namespace {

struct Found {
  std::string name, value;
};

std::optional<Found> first(const std::vector<const char*>& names, const Lookup& lookup) {
  for (const char* name : names)
    if (auto value = lookup(name); value && !value->empty()) return Found{name, *value};
  return std::nullopt;
}

std::string join(const std::vector<const char*>& names, const char* word) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : word) + std::string(name);
  return text;
}

/// TUTTI_ADDRESS=host:port, or the launcher's own variables.
void readAddress(const Launcher& launcher, const Lookup& lookup, LaunchFacts& facts) {
  if (const auto address = lookup("TUTTI_ADDRESS"); address && !address->empty()) {
    const size_t colon = address->rfind(':');
    TUTTI_REQUIRE(colon != std::string::npos && colon > 0,
                  "TUTTI_ADDRESS=", base::printable(*address), " is not host:port");
    facts.host = address->substr(0, colon);
    if (facts.host->size() > 2 && facts.host->front() == '[' && facts.host->back() == ']')
      facts.host = facts.host->substr(1, facts.host->size() - 2);
    facts.port = parseVariable("TUTTI_ADDRESS", address->substr(colon + 1), 1, 65535);
    return;
  }
  const auto host = first(launcher.host, lookup);
  const auto port = first(launcher.port, lookup);
  TUTTI_REQUIRE(host.has_value() == port.has_value(), (host ? *host : *port).name, " is set, and ",
                join(host ? launcher.port : launcher.host, " or "), " is not");
  if (!host) return;
  facts.host = host->value;
  facts.port = parseVariable(port->name, port->value, 1, 65535);
}

bool onOneHost(const Launcher& launcher, int size, const Lookup& lookup) {
  if (const auto local = first(launcher.localSize, lookup))
    return parseVariable(local->name, local->value, 1, size) == size;
  if (const auto nodes = first(launcher.nodes, lookup))
    return parseVariable(nodes->name, nodes->value, 1, kMaxWorldSize) == 1;
  return launcher.oneHost;
}

/// "pid 4711", or nothing where the descriptor is no local socket.
std::string parentOf(const char* name, const Lookup& lookup) {
  const auto text = lookup(name);
  if (!text || text->empty()) return {};
  ucred peer{};
  socklen_t length = sizeof peer;
  const int descriptor = parseVariable(name, *text, 0, INT_MAX);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
    return {};
  return base::message("pid ", peer.pid);
}

bool speaks(const Launcher& launcher, const Lookup& lookup) {
  return first(launcher.rank, lookup) && (launcher.needs.empty() || first(launcher.needs, lookup));
}

/// What launchers asked after the one that counts say of a larger world; never fails.
std::string largerWorld(const Launcher& counts, const Lookup& lookup) {
  for (const Launcher* other = &counts + 1; other <= &launchers().back(); ++other) {
    const auto size = first(other->size, lookup);
    if (!speaks(*other, lookup) || !size || size->value == "1") continue;
    return base::message(other->name, " says rank ",
                         base::printable(first(other->rank, lookup)->value), " of ",
                         base::printable(size->value));
  }
  return {};
}

/// Rank, size and hosts, each of which may be malformed by itself.
void readMembership(const Launcher& launcher, const Found& rank, const Lookup& lookup,
                    LaunchFacts& facts) {
  const auto note = [&](const auto& reading) {
    try {
      reading();
    } catch (const Error& error) {
      if (!facts.malformed) facts.malformed = error;
    }
  };
  const auto size = first(launcher.size, lookup);
  note([&] {
    TUTTI_REQUIRE(size, rank.name, "=", base::printable(rank.value), " is set, and ",
                  join(launcher.size, " or "), " is not");
    facts.size = parseVariable(size->name, size->value, 1, kMaxWorldSize);
  });
  note([&] {
    const int number = parseVariable(rank.name, rank.value, 0, kMaxWorldSize - 1);
    TUTTI_REQUIRE(facts.size < 0 || number < facts.size, rank.name, "=", rank.value,
                  " is not below ", size->name, "=", size->value);
    facts.rank = number;
  });
  // Where that cannot be known, whoever shares this host can be told.
  facts.oneHost = true;
  if (facts.size > 0) note([&] { facts.oneHost = onOneHost(launcher, facts.size, lookup); });
}

/// What tells this run of the job from all others.
void readRun(const Launcher& launcher, const Lookup& lookup, LaunchFacts& facts) {
  const auto add = [&](const char* name, bool namesJob) {
    const auto value = lookup(name);
    if (!value || value->empty()) return;
    facts.run += base::message(name, "=", *value, ";");
    facts.namesJob |= namesJob;
  };
  for (const char* name : launcher.run) add(name, true);
  for (const char* name : launcher.attempt) add(name, false);
  add("TUTTI_JOB_ID", true);
  if (!facts.oneHost) return;  // each host has an agent of its own
  std::string agent;
  if (launcher.parent) agent = parentOf(launcher.parent, lookup);
  if (launcher.agent && lookup(launcher.agent)) agent = launchingProcess(launcher.rank.front());
  if (!agent.empty()) facts.run += "started by " + agent + ";";
  facts.namesJob |= launcher.parent && !agent.empty();
}

LaunchFacts read(const Launcher& launcher, const Found& rank, const Lookup& lookup) {
  LaunchFacts facts{.launcher = launcher.name};
  readMembership(launcher, rank, lookup, facts);
  readRun(launcher, lookup, facts);
  readAddress(launcher, lookup, facts);
  facts.addressVariables = "TUTTI_ADDRESS";
  if (!launcher.host.empty())
    facts.addressVariables +=
        " or " + join(launcher.host, " or ") + " and " + join(launcher.port, " or ");
  if (facts.size == 1) facts.contradiction = largerWorld(launcher, lookup);
  return facts;
}

/// Programs that start ranks themselves.
std::vector<Launcher> programs() {
  return {
      {.name = "tutti run", .rank = {"TUTTI_RANK"}, .size = {"TUTTI_WORLD_SIZE"}},
      {.name = "torchrun",
       .rank = {"RANK"},
       .size = {"WORLD_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       // The user chooses a run id, or there is none, and may start two jobs by one process.
       .attempt = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
       .localSize = {"LOCAL_WORLD_SIZE"},
       .oneHost = true,
       .agent = "TORCHELASTIC_RUN_ID"},
  };
}

/// MPICH and Slurm come before PMI, whose variables they set, too.
std::vector<Launcher> processManagers() {
  return {
      {.name = "Open MPI",
       .rank = {"OMPI_COMM_WORLD_RANK"},
       .size = {"OMPI_COMM_WORLD_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       // Up to version 4 a namespace is 16 bits of a hash; the other is a random number of the job.
       .run = {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports"},
       .localSize = {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {.name = "MPICH",
       .rank = {"PMI_RANK"},
       .size = {"PMI_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       .localSize = {"MPI_LOCALNRANKS"},
       .parent = "PMI_FD",
       .needs = {"MPI_LOCALNRANKS"}},  // Slurm's PMI sets all but this
      {.name = "Slurm",
       .rank = {"SLURM_PROCID"},
       .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       .run = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
       .attempt = {"SLURM_RESTART_COUNT"},
       .nodes = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
       .needs = {"SLURM_STEP_ID"}},
      {.name = "PMI",
       .rank = {"PMI_RANK"},
       .size = {"PMI_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       .run = {"PMI_JOBID"}},
      // Its size is in the server's store alone, which only a PMIx library can ask.
      {.name = "PMIx",
       .rank = {"PMIX_RANK"},
       .size = {"TUTTI_WORLD_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"},
       .run = {"PMIX_NAMESPACE"}},
  };
}

/// Their ranks are pods.
std::vector<Launcher> podControllers() {
  return {
      {.name = "Kubernetes",
       .rank = {"JOB_COMPLETION_INDEX"},
       .size = {"TUTTI_WORLD_SIZE"},
       .host = {"MASTER_ADDR"},
       .port = {"MASTER_PORT"}},
      {.name = "LeaderWorkerSet",
       .rank = {"LWS_WORKER_INDEX"},
       .size = {"LWS_GROUP_SIZE"},
       .host = {"LWS_LEADER_ADDRESS"},
       .port = {"MASTER_PORT"}},
  };
}

}  // namespace

std::optional<std::string> processVariable(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text ? std::optional<std::string>(text) : std::nullopt;
}

int parseVariable(const std::string& name, const std::string& value, int low, int high) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  TUTTI_REQUIRE(error == std::errc() && rest == end && number >= low && number <= high, name, "=",
                base::printable(value), " is not a whole number from ", low, " to ", high);
  return number;
}

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> table = [] {
    std::vector<Launcher> all = programs();
    for (const auto& others : {processManagers(), podControllers()})
      all.insert(all.end(), others.begin(), others.end());
    return all;
  }();
  return table;
}

std::optional<LaunchFacts> readLaunchFacts(const Lookup& lookup) {
  for (const Launcher& launcher : launchers())
    if (speaks(launcher, lookup)) return read(launcher, *first(launcher.rank, lookup), lookup);
  return std::nullopt;
}

}  // namespace tutti::bootstrap
