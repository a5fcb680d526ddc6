#include "tests/launchers/slurm_cluster.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

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

std::string nodeState() { return run({"sinfo", "--noheader", "--format=%T"}).out; }

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
  node_ = std::make_unique<Command>(Words{"slurmd", "-D"});
  ready_ = eventually([] { return nodeState() == "idle\n"; }, kStartTime);
}

SlurmCluster::~SlurmCluster() { unsetenv("SLURM_CONF"); }

std::string SlurmCluster::log() {
  std::string all = folder_.read("munge/log");
  for (const auto& daemon : {&munged_, &controller_, &node_}) {
    if (!*daemon) continue;
    (*daemon)->signal(SIGKILL);
    const Result result = (*daemon)->wait();
    all += result.out + result.err;
  }
  return all;
}

void SlurmCluster::writeFiles() const {
  TUTTI_SYSCALL(chmod(folder_.path().c_str(), 0711));  // munge wants its socket to be within reach
  for (const char* name : {"munge", "state", "spool"}) {
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
  const int controllerPort = freePort();
  int nodePort = freePort();
  while (nodePort == controllerPort) nodePort = freePort();
  // No part of it needs cgroups, a database or a network; more processors are promised than there
  // are, so that two jobs run at once anywhere.
  std::ofstream(path("slurm.conf"))
      << "ClusterName=tutti\n"
      << "SlurmctldHost=" << hostName() << "(127.0.0.1)\n"
      << "SlurmctldPort=" << controllerPort << "\n"
      << "SlurmdPort=" << nodePort << "\n"
      << "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n"
      << "SlurmUser=" << userName() << "\n"
      << "SlurmdUser=" << userName() << "\n"
      << "AuthType=auth/munge\n"
      << "AuthInfo=socket=" << path("munge/socket") << "\n"
      << "CredType=cred/munge\n"
      << "StateSaveLocation=" << path("state") << "\n"
      << "SlurmdSpoolDir=" << path("spool") << "\n"
      << "SlurmctldPidFile=" << path("slurmctld.pid") << "\n"
      << "SlurmdPidFile=" << path("slurmd.pid") << "\n"
      << "ProctrackType=proctrack/linuxproc\n"
      << "TaskPlugin=task/none\n"
      << "JobAcctGatherType=jobacct_gather/none\n"
      << "AccountingStorageType=accounting_storage/none\n"
      << "MpiDefault=none\n"
      << "SelectType=select/cons_tres\n"
      << "SelectTypeParameters=CR_CPU\n"
      << "SlurmdParameters=config_overrides\n"
      << "SchedulerParameters=batch_sched_delay=0\n"
      << "NodeName=tutti NodeHostname=" << hostName() << " NodeAddr=127.0.0.1 CPUs=16\n"
      << "PartitionName=all Nodes=tutti Default=YES MaxTime=10 State=UP\n";
}

}  // namespace tutti::launchers
