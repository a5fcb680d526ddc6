#include "tests/launchers/slurm_cluster.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "src/base/check.h"
#include "tests/launchers/free_port.h"
#include "tests/launchers/launcher_checks.h"

namespace tutti::launchers {
namespace {

using launcher::Command;
using launcher::eventually;

constexpr std::chrono::seconds kStartTime(60);
constexpr int kKeyBytes = 128;

std::string userName() {
  const passwd* user = getpwuid(geteuid());
  return user ? user->pw_name : std::to_string(geteuid());
}

/// As Slurm compares it: without the domain.
std::string hostName() {
  char name[256] = {};
  TUTTI_SYSCALL(gethostname(name, sizeof name - 1));
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

std::string nodeState() {
  return run({"sinfo", "--noheader", "--partition=two", "--format=%T"}).out;
}

/// A node's name leads to it, as on a cluster: a script takes it for the address of rank 0.
std::string nodeName(int number) { return "127.0.0." + std::to_string(number); }

}  // namespace

std::string missingSlurmProgram() {
  for (const char* program :
       {"munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "sinfo", "scontrol"})
    if (find(program).empty()) return program;
  return {};
}

SlurmCluster::SlurmCluster() {
  writeFiles();
  setenv("SLURM_CONF", path("slurm.conf").c_str(), 1);
  munged_ = std::make_unique<Command>(
      Words{"munged", "--foreground", "--num-threads=2", "--socket=" + path("munge/socket"),
            "--key-file=" + path("munge.key"), "--pid-file=" + path("munge/pid"),
            "--seed-file=" + path("munge/seed"), "--log-file=" + path("munge/log")});
  if (!eventually([&] { return std::filesystem::is_socket(path("munge/socket")); }, kStartTime))
    return;
  controller_ = std::make_unique<Command>(Words{"slurmctld", "-D", "-c"});
  for (int number : {1, 2})
    nodes_.push_back(std::make_unique<Command>(Words{"slurmd", "-D", "-N", nodeName(number)}));
  ready_ = eventually([] { return nodeState() == "idle\n"; }, kStartTime);
}

SlurmCluster::~SlurmCluster() { unsetenv("SLURM_CONF"); }

std::string SlurmCluster::log() {
  std::string all = folder_.read("munge/log");
  const auto end = [&](const std::unique_ptr<Command>& daemon) {
    if (!daemon) return;
    daemon->signal(SIGKILL);
    const Result result = daemon->wait();
    all += result.out + result.err;
  };
  end(munged_);
  end(controller_);
  for (const auto& node : nodes_) end(node);
  return all;
}

void SlurmCluster::writeFiles() const {
  TUTTI_SYSCALL(chmod(folder_.path().c_str(), 0711));  // munge wants its socket to be within reach
  for (const char* name : {"munge", "state"}) {
    std::filesystem::create_directory(path(name));
    TUTTI_SYSCALL(chmod(path(name).c_str(), 0755));
  }
  std::random_device random;
  std::ofstream key(path("munge.key"), std::ios::binary);
  for (int i = 0; i < kKeyBytes; ++i) key.put(static_cast<char>(random()));
  key.close();
  TUTTI_SYSCALL(chmod(path("munge.key").c_str(), 0600));
  // slurmd always loads a plugin for cgroups. The one that is found by itself wants them mounted,
  // which no container promises; this one touches none until it is used, and nothing here uses it.
  std::ofstream(path("cgroup.conf"))
      << "CgroupPlugin=cgroup/v1\nCgroupMountpoint=" << path("cgroup") << "\n";
  std::set<int> ports;
  while (ports.size() < 3) ports.insert(freePort());
  const std::vector<int> port(ports.begin(), ports.end());
  // No part of it needs cgroups, a database or a network; more processors are promised than there
  // are, so that two jobs run at once anywhere.
  std::ofstream file(path("slurm.conf"));
  file << "ClusterName=tutti\n"
       << "SlurmctldHost=" << hostName() << "(127.0.0.1)\n"
       << "SlurmctldPort=" << port[0] << "\n"
       << "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n"
       << "SlurmUser=" << userName() << "\n"
       << "SlurmdUser=" << userName() << "\n"
       << "AuthType=auth/munge\n"
       << "AuthInfo=socket=" << path("munge/socket") << "\n"
       << "CredType=cred/munge\n"
       << "StateSaveLocation=" << path("state") << "\n"
       << "SlurmdSpoolDir=" << path("spool") << ".%n\n"
       << "SlurmctldPidFile=" << path("slurmctld.pid") << "\n"
       << "SlurmdPidFile=" << path("slurmd") << ".%n.pid\n"
       << "ProctrackType=proctrack/linuxproc\n"
       << "TaskPlugin=task/none\n"
       << "JobAcctGatherType=jobacct_gather/none\n"
       << "AccountingStorageType=accounting_storage/none\n"
       << "MpiDefault=none\n"
       << "SelectType=select/cons_tres\n"
       << "SelectTypeParameters=CR_CPU\n"
       << "SlurmdParameters=config_overrides\n"
       << "SchedulerParameters=batch_sched_delay=0\n"
       << "PartitionName=one Nodes=" << nodeName(1) << " Default=YES MaxTime=10 State=UP\n"
       << "PartitionName=two Nodes=ALL MaxTime=10 State=UP\n";
  for (const int number : {1, 2})
    file << "NodeName=" << nodeName(number) << " NodeHostname=" << hostName()
         << " NodeAddr=127.0.0.1 Port=" << port[static_cast<size_t>(number)] << " CPUs=16\n";
}

}  // namespace tutti::launchers
