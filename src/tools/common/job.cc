#include "src/tools/common/job.h"

#include <CLI/CLI.hpp>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/base/env.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/settings.h"
#include "src/tools/common/values.h"

namespace tutti::tools {
namespace {

/// The host of each rank: "2x4" is two hosts of four ranks each, "3,1,4" three of so many.
std::vector<int> parseHosts(const std::string& text, int ranks) {
  const auto number = [&](const std::string& word) {
    return static_cast<int>(
        parseWhole("--hosts " + text + " is to be like 2x4 or 3,1,4:", word, 1, ranks));
  };
  std::vector<int> sizes;
  if (const size_t times = text.find('x'); times != std::string::npos)
    sizes.assign(static_cast<size_t>(number(text.substr(0, times))),
                 number(text.substr(times + 1)));
  else
    for (const std::string& word : parseList("--hosts", text)) sizes.push_back(number(word));
  std::vector<int> hostOf;
  for (size_t host = 0; host < sizes.size(); ++host)
    hostOf.insert(hostOf.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  TUTTI_REQUIRE(hostOf.size() == static_cast<size_t>(ranks), "--hosts ", text, " does not place ",
                ranks, " ranks");
  return hostOf;
}

}  // namespace

topology::Topology PlannedJob::topology() const {
  topology::Topology made{.ranks = ranks, .cores = cores, .hostOf = hostOf};
  if (cores == 0) made.cores = made.ranksPerHost();
  const auto layout = communicator::layoutFor(made, "");
  made.slotBytes = layout.slotBytes;
  made.channels = layout.channels;
  made.attached = ranks > 1 && made.hosts() == 1 && base::env().shmAttach;
  return made;
}

topology::Tuning PlannedJob::tuning() const {
  if (tuningFile.empty()) return communicator::ownTuning();
  return collectives::readTuning(tuningFile);
}

JobOptions::JobOptions(CLI::App& app, int most) {
  app.add_option("-n,--ranks", job_.ranks, "how many ranks")
      ->required()
      ->check(CLI::Range(1, most));
  addPlaces(app,
            "that the ranks of a host share, for the choice; without it those of this host, and "
            "with --hosts one each");
}

JobOptions::JobOptions(CLI::App& app) {
  addPlaces(app, "that the ranks of a host share, for the choice; one each without it");
}

void JobOptions::addPlaces(CLI::App& app, const char* cores) {
  app.add_option("--hosts", hosts_,
                 "that the ranks are on, in order: 2x4 (two hosts of four ranks) or 3,1,4; one "
                 "without it");
  app.add_option("--cores", job_.cores, cores)->check(CLI::Range(1, 4096))->default_str("");
  app.add_option("--tuning", job_.tuningFile,
                 "file with the chooser's constants, instead of the one that TUTTI_TUNING names");
}

PlannedJob JobOptions::parsed() const {
  PlannedJob job = parsed(job_.ranks);
  if (job.cores == 0 && job.hostOf.empty()) job.cores = base::usableCores();
  return job;
}

PlannedJob JobOptions::parsed(int ranks) const {
  PlannedJob job = job_;
  job.ranks = ranks;
  if (!hosts_.empty()) job.hostOf = parseHosts(hosts_, job.ranks);
  return job;
}

}  // namespace tutti::tools
