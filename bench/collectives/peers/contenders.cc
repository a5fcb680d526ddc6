#include "bench/collectives/peers/contenders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace tutti::bench {

namespace fs = std::filesystem;

namespace {

constexpr int kStartSeconds = 60;
// Tests that run beside it look for files with Tutti's name.
constexpr const char* kFolder = "bench-peers-";

/// The peers' temporaries stay resident, which makes them faster, and Open MPI agrees to run as
/// root. What the job says goes into its log.
void prepare(const fs::path& log) {
  ::setenv("GLIBC_TUNABLES",
           "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296", 1);
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    ::setenv(name, "1", 1);
  const int said = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (said < 0 || ::dup2(said, STDOUT_FILENO) < 0 || ::dup2(said, STDERR_FILENO) < 0)
    throw std::runtime_error("its log cannot be written");
}

/// Its last line that says something.
std::string lastWords(const fs::path& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" -\t\r*=") != std::string::npos) last = line;
  return last;
}

const std::vector<std::string> kOpenMpiFlags{"--oversubscribe", "--bind-to", "none"};
const std::vector<std::string> kOpenMpiCrowded{"--mca", "mpi_yield_when_idle", "1"};

std::vector<std::string> withFlags(std::vector<std::string> flags,
                                   const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Empty where a process has it, which ends with the lock.
base::FileDescriptor locked(const fs::path& folder) {
  base::FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock.reset();
  return lock;
}

void removeLeftovers(const fs::path& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored))
    if (entry.path().filename().string().starts_with(kFolder) && locked(entry.path()))
      fs::remove_all(entry.path(), ignored);
}

}  // namespace

std::vector<Contender> contenders(const Places& places) {
  const std::string bin = places.bin, peers = places.peers;
  const auto workerOf = [&](const char* name) { return peers + "/" + name + "/bin/mpi_worker"; };
  const auto ucx =
      withFlags(kOpenMpiFlags, {"--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca",
                                "pml_ucx_devices", "any", "-x", "UCX_TLS=shm,self"});
  return {
      {.name = "tutti",
       .title = "Tutti",
       .worker = bin + "/tutti_worker",
       .launcher = {bin + "/tutti", "run", "--no-prefix"},
       .flags = {"--"},
       .source = "the target tutti_worker"},
      {.name = "openmpi",
       .title = "Open MPI",
       .worker = workerOf("openmpi"),
       .launcher = {peers + "/openmpi/bin/mpirun"},
       .flags = kOpenMpiFlags,
       .crowded = kOpenMpiCrowded,
       .source = "make bench-peers"},
      {.name = "mpich",
       .title = "MPICH",
       .worker = workerOf("mpich"),
       .launcher = {peers + "/mpich/bin/mpiexec"},
       .source = "make bench-peers"},
      {.name = "debian-openmpi",
       .title = "Debian's Open MPI",
       .worker = workerOf("debian-openmpi"),
       .launcher = {"mpirun.openmpi"},
       .flags = withFlags(kOpenMpiFlags, {"--mca", "pml", "ob1"}),
       .crowded = kOpenMpiCrowded,
       .source = "make bench-peers"},
      {.name = "debian-openmpi-ucx",
       .title = "Debian's Open MPI + UCX",
       .worker = workerOf("debian-openmpi"),
       .launcher = {"mpirun.openmpi"},
       .flags = ucx,
       .crowded = kOpenMpiCrowded,
       .source = "make bench-peers"},
      {.name = "debian-mpich",
       .title = "Debian's MPICH",
       .worker = workerOf("debian-mpich"),
       .launcher = {"mpiexec.mpich"},
       .source = "make bench-peers"},
      {.name = "gloo",
       .title = "Gloo",
       .worker = bin + "/gloo_worker",
       .flags = {"lo"},
       .source = "Debian's libgloo-dev, when this is configured",
       .lacksReduceScatter = true},
  };
}

std::vector<Process> Contender::processes(int ranks, int cores, const fs::path& log) const {
  std::vector<std::string> command = launcher;
  if (!launcher.empty()) {
    command.insert(command.end(), {"-n", std::to_string(ranks)});
    command.insert(command.end(), flags.begin(), flags.end());
    if (ranks > cores) command.insert(command.end(), crowded.begin(), crowded.end());
    command.push_back(worker);
    return {{command, [log] { prepare(log); }}};
  }
  command.push_back(worker);
  command.insert(command.end(), flags.begin(), flags.end());
  std::vector<Process> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back({command, [log, rank, ranks] {
                     prepare(log);
                     ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
                     ::setenv("TUTTI_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
                   }});
  return all;
}

Jobs::Jobs(const fs::path& root, int cores)
    : folder_(root / (kFolder + std::to_string(::getpid()))), cores_(cores) {
  removeLeftovers(root);
  fs::create_directories(folder_);
  lock_ = locked(folder_);
}

Jobs::~Jobs() {
  jobs_.clear();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Jobs::keep(int ranks, const std::vector<const Contender*>& which) {
  std::erase_if(jobs_, [&](const auto& job) {
    return ranks != ranks_ || std::ranges::find(which, job.first, &Contender::name) == which.end();
  });
  ranks_ = ranks;
}

Job& Jobs::of(const Contender& contender) {
  for (const auto& [name, job] : jobs_)
    if (name == contender.name) return *job;
  if (::access(contender.worker.c_str(), X_OK) != 0)
    throw std::runtime_error("there is no " + contender.worker + " (" + contender.source + ")");
  fs::remove(logOf(contender));
  auto job =
      std::make_unique<Job>(contender.name, contender.processes(ranks_, cores_, logOf(contender)),
                            ranks_, folderOf(contender));
  try {
    job->run({.iterations = 1, .collective = WORKER_BARRIER}, kStartSeconds);
  } catch (const std::exception& e) {
    const std::string words = lastWords(logOf(contender));
    throw std::runtime_error(e.what() + (words.empty() ? "" : ": " + words));
  }
  jobs_.emplace_back(contender.name, std::move(job));
  return *jobs_.back().second;
}

std::string Jobs::version(const Contender& contender) const {
  std::ifstream in(folderOf(contender) / "version");
  std::string words;
  for (std::string word; in >> word;) words += (words.empty() ? "" : " ") + word;
  return words;
}

void Jobs::end(const Contender& contender) {
  std::erase_if(jobs_, [&](const auto& job) { return job.first == contender.name; });
}

}  // namespace tutti::bench
