// The checks of `tutti doctor` on made-up machines, good and bad; what it prints; its command line.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/check.h"
#include "src/tools/doctor/doctor.h"
#include "tests/support/run_program.h"
#include "tests/topology/big_machine.h"

namespace tutti::tools {
namespace {

using State = Finding::State;

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// Of a machine that lacks nothing, for 8 ranks.
DoctorFacts good() {
  DoctorFacts f;
  f.ranks = 8;
  f.machine = topology::bigMachine();
  f.inboxBytes = 8 * kMiB;
  f.mappedBytes = 1040 * kMiB;
  f.descriptors = 80;
  f.memory = {{uint64_t{1000} << 30, "the machine"}};
  f.openFiles = {1024, 4096};
  f.kernel = "6.6.1";
  f.clockSource = "tsc";
  f.availableClockSources = "tsc hpet acpi_pm";
  f.sharedHugePages = "within_size";
  f.governors.assign(16, "performance");
  f.routeAddress = "192.0.2.7";
  return f;
}

DoctorFacts with(const auto& change) {
  DoctorFacts f = good();
  change(f);
  return f;
}

void expect(const Finding& found, State state, const std::string& measured,
            const std::string& mend) {
  EXPECT_STREQ(toString(found.state), toString(state)) << found.check << ": " << found.measured;
  EXPECT_NE(found.measured.find(measured), std::string::npos) << found.measured;
  EXPECT_NE(found.mend.find(mend), std::string::npos) << found.mend;
  EXPECT_EQ(found.why.empty(), state == State::Good) << found.why;
  if (found.problem()) {
    EXPECT_FALSE(found.mend.empty()) << found.check;
  }
}

TEST(Doctor, FindsNothingWhereNothingIsWrong) {
  std::set<std::string> names;
  for (const Finding& f : diagnose(good())) {
    expect(f, State::Good, "", "");
    EXPECT_TRUE(f.mend.empty()) << f.mend;
    EXPECT_FALSE(f.measured.empty()) << f.check;
    EXPECT_TRUE(names.insert(f.check).second) << f.check;
  }
  EXPECT_EQ(names.size(), 25u);
}

TEST(Doctor, CountsCores) {
  expect(checkCores(good()), State::Good, "8 cores for 8 ranks", "");
  expect(checkCores(with([](auto& f) { f.ranks = 9; })), State::Slow, "8 cores for 9 ranks",
         "tutti run -n 8");
  const auto bound = [](auto& f) { f.machine.usable = {0, 2}; };
  expect(checkCores(with(bound)), State::Slow, "2 cores for 8 ranks", "taskset -cp 0-15 $$");
  expect(checkCores(with([&](auto& f) { bound(f), f.ranks = 2; })), State::Note,
         "the machine has 8", "");
}

TEST(Doctor, KnowsWhatACpusetAllows) {
  const auto within = [](int ranks, int count) {
    return checkCores(with([&](auto& f) {
      f.ranks = ranks;
      f.machine.usable = {0, 2};
      f.cpuSet = {count, "cpuset 0,2 of cgroup /job"};
    }));
  };
  expect(within(2, 2), State::Note, "2 cores for 2 ranks: cpuset 0,2 of cgroup /job; the machine",
         "");
  expect(within(3, 2), State::Slow, "cpuset 0,2 of cgroup /job", "--cpuset-cpus");
  // A process that is bound to less than its set may widen that itself.
  expect(within(3, 16), State::Slow, "2 cores for 3 ranks", "taskset -cp");
}

TEST(Doctor, ComparesCpuQuotasWithRanks) {
  const auto quota = [](int ranks, double cpus) {
    return checkCpuQuota(with([&](auto& f) {
      f.ranks = ranks;
      f.cpuQuota = {cpus, "CPU cgroup /job (x of each y us)"};
    }));
  };
  expect(checkCpuQuota(good()), State::Good, "none", "");
  expect(quota(8, 8), State::Good, "8 CPUs for 8 ranks, 1 for each: CPU cgroup /job", "");
  expect(quota(4, 1.5), State::Slow, "1.5 CPUs for 4 ranks, 0.375 for each: CPU cgroup /job",
         "raise the quota (Docker: --cpus, Kubernetes: limits.cpu) to 4, or tutti run -n 1");
  const Finding half = quota(1, 0.5);
  expect(half, State::Slow, "0.5 CPUs for 1 rank", "limits.cpu) to 1");
  EXPECT_EQ(half.mend.find("tutti run"), std::string::npos) << half.mend;
}

TEST(Doctor, SaysWhichNcclTheLoaderFinds) {
  const auto found = [](bool isTutti) {
    return checkFoundNccl(with([&](auto& f) {
      f.nccl = {{"/opt/libnccl.so.2", isTutti, "2.30.7"}};
      f.ownNccl = "/my tutti/libnccl.so.2";
    }));
  };
  expect(checkFoundNccl(good()), State::Good, "the loader finds none", "");
  expect(found(true), State::Good, "/opt/libnccl.so.2: Tutti's, NCCL 2.30.7", "");
  expect(found(false), State::Note, "/opt/libnccl.so.2: not Tutti's, NCCL 2.30.7",
         "LD_PRELOAD='/my tutti/libnccl.so.2' PROGRAM");
}

TEST(Doctor, NamesVariablesWithoutAMeaning) {
  expect(checkVariables(good()), State::Good, "have a meaning", "");
  expect(checkVariables(with([](auto& f) {
           f.unknownVariables = {"TUTTI_LOGG (did you mean TUTTI_LOG?)", "TUTTI_X"};
         })),
         State::Note, "TUTTI_LOGG (did you mean TUTTI_LOG?), TUTTI_X", "");
}

TEST(Doctor, WantsSharedMemoryForAllRanks) {
  expect(checkSharedMemory(good()), State::Good, "64 MiB for 8 ranks, 1000 GiB left", "");
  expect(checkSharedMemory(with([](auto& f) {
           f.memory = {{64 * kMiB, "x"}};
         })),
         State::Good, "64 MiB left in x", "");
  expect(checkSharedMemory(with([](auto& f) {
           f.memory = {{64 * kMiB - 1, "the machine"}};
         })),
         State::Wrong, "", "fewer ranks");
  expect(checkSharedMemory(with([](auto& f) {
           f.memory = {{kMiB, "memory cgroup /job (limit 2097152 bytes)"}};
         })),
         State::Wrong, "1 MiB left in memory cgroup /job", "--mem");
  expect(checkSharedMemory(with([](auto& f) { f.memory.reset(); })), State::Good, "no known limit",
         "");
}

TEST(Doctor, WantsSealedMemory) {
  expect(checkSealedMemory(good()), State::Good, "6.6.1", "");
  expect(checkSealedMemory(with([](auto& f) { f.sealedMemory = "Operation not permitted"; })),
         State::Wrong, "Operation not permitted", "seccomp");
}

TEST(Doctor, ComparesLimitsWithNeeds) {
  expect(checkFileSize(good()), State::Good, "unlimited", "");
  expect(checkFileSize(with([](auto& f) {
           f.fileSize = {8 * kMiB, 8 * kMiB};
         })),
         State::Good, "8 MiB", "");
  expect(checkFileSize(with([](auto& f) { f.fileSize.soft = 8 * kMiB - 1; })), State::Wrong, "",
         "ulimit -f unlimited");
  expect(checkFileSize(with([](auto& f) {
           f.fileSize = {1, kMiB};
         })),
         State::Wrong, "1 byte", "as root: echo '* - fsize unlimited'");
  expect(checkAddressSpace(good()), State::Good, "unlimited", "");
  expect(checkAddressSpace(with([](auto& f) { f.addressSpace.soft = 1039 * kMiB; })), State::Wrong,
         "", "ulimit -v unlimited");
  expect(checkOpenFiles(good()), State::Good, "limit 1024, 80 are enough for 8 ranks", "");
  expect(checkOpenFiles(with([](auto& f) { f.openFiles = {80, 80}; })), State::Good, "80", "");
  expect(checkOpenFiles(with([](auto& f) { f.openFiles.soft = 79; })), State::Wrong, "limit 79",
         "ulimit -n 80");
  expect(checkOpenFiles(with([](auto& f) {
           f.openFiles = {64, 64};
         })),
         State::Wrong, "", "echo '* - nofile 80'");
}

TEST(Doctor, WantsLockedMemoryForNics) {
  const auto limited = [](auto& f) { f.lockedMemory = {8 * kMiB, 8 * kMiB}; };
  expect(checkLockedMemory(good()), State::Good, "unlimited", "");
  expect(checkLockedMemory(with(limited)), State::Wrong, "8 MiB", "memlock unlimited");
  expect(checkLockedMemory(with([&](auto& f) { limited(f), f.machine.nics.clear(); })), State::Good,
         "no NIC here needs any", "");
  expect(checkLockedMemory(with([&](auto& f) {
           limited(f);
           for (auto& nic : f.machine.nics) nic.ports[0].state = "down";
         })),
         State::Good, "no NIC", "");
}

TEST(Doctor, TriesTheKernel) {
  expect(checkProcessDescriptors(good()), State::Good, "6.6.1", "");
  expect(checkProcessDescriptors(
             with([](auto& f) { f.processDescriptors = "Function not implemented"; })),
         State::Wrong, "Function not implemented, Linux 6.6.1", "5.3");
  expect(checkPeerDescriptors(good()), State::Good, "works", "");
  expect(checkPeerDescriptors(with([](auto& f) { f.peerDescriptors = "Protocol not available"; })),
         State::Note, "Protocol not available", "");
}

TEST(Doctor, WantsAClockThatProgramsRead) {
  const auto clock = [](const char* source, const char* available) {
    return checkClock(with([&](auto& f) {
      f.clockSource = source;
      f.availableClockSources = available;
    }));
  };
  expect(clock("tsc", "tsc"), State::Good, "tsc", "");
  expect(clock("kvm-clock", "kvm-clock tsc"), State::Good, "kvm-clock", "");
  expect(clock("hpet", "tsc hpet acpi_pm"), State::Slow, "hpet", "echo tsc");
  expect(clock("hpet", "hpet acpi_pm tsc-early"), State::Slow, "hpet", "dmesg");
  expect(clock("", ""), State::Note, "does not show", "");
}

TEST(Doctor, WantsCoresAtFullSpeed) {
  expect(checkGovernor(good()), State::Good, "governor performance", "");
  expect(checkGovernor(with([](auto& f) { f.governors[3] = f.governors[9] = "powersave"; })),
         State::Slow, "governor powersave on 2 of 16 PUs", "cpupower");
  expect(checkGovernor(with([](auto& f) { f.governors.clear(); })), State::Good, "no governor", "");
}

TEST(Doctor, KnowsHugePages) {
  const auto pages = [](const char* word) {
    return checkHugePages(with([&](auto& f) { f.sharedHugePages = word; }));
  };
  expect(pages("always"), State::Good, "always", "");
  expect(pages("never"), State::Note, "never", "within_size");
  expect(pages("advise"), State::Note, "advise", "within_size");
  expect(pages(""), State::Good, "not shown", "");
}

TEST(Doctor, SaysWhichInterfaceWouldBeChosen) {
  const topology::NetworkInterface second{
      .name = "eth1", .addresses = {"10.0.0.1"}, .gigabitsPerSecond = 100, .up = true};
  const auto add = [&](auto& f) { f.machine.interfaces.push_back(second); };
  expect(checkInterface(good()), State::Good, "eth0 (192.0.2.7)", "");
  expect(checkInterface(with(add)), State::Slow, "eth0 (192.0.2.7), of several: also eth1",
         "export TUTTI_INTERFACE=eth1");
  expect(checkInterface(with([&](auto& f) {
           add(f);
           f.machine.interfaces.back().gigabitsPerSecond.reset();
         })),
         State::Note, "also eth1", "TUTTI_INTERFACE=eth1");
  // The default route decides, then the order.
  expect(checkInterface(with([&](auto& f) { add(f), f.routeAddress = "10.0.0.1"; })), State::Note,
         "eth1 (10.0.0.1), of several: also eth0", "TUTTI_INTERFACE=eth0");
  expect(checkInterface(with([&](auto& f) { add(f), f.routeAddress = ""; })), State::Slow, "eth0 (",
         "");
  // TUTTI_INTERFACE names one, by name or address.
  for (const char* wanted : {"eth0", "192.0.2.7"})
    expect(checkInterface(with([&](auto& f) { add(f), f.wantedInterface = wanted; })), State::Good,
           "eth0 (192.0.2.7), as TUTTI_INTERFACE says", "");
  expect(checkInterface(with([](auto& f) { f.wantedInterface = "eth7"; })), State::Wrong,
         "TUTTI_INTERFACE=eth7 is none that is up; there are eth0", "export TUTTI_INTERFACE=eth0");
  const auto down = [](auto& f) { f.machine.interfaces[1].up = false; };
  expect(checkInterface(with([&](auto& f) { down(f), f.wantedInterface = "eth0"; })), State::Wrong,
         "eth0 is none", "unset TUTTI_INTERFACE");
  expect(checkInterface(with(down)), State::Note, "none but the loopback", "");
  expect(checkInterface(with([&](auto& f) { down(f), f.machine.interfaces[0].up = false; })),
         State::Note, "none is up, nor is the loopback", "ip link set lo up");
  expect(checkInterface(with([](auto& f) { f.machine.interfaces[1].addresses.clear(); })),
         State::Note, "none but the loopback", "");
  // NCCL_SOCKET_IFNAME allows some.
  expect(checkInterface(with([](auto& f) { f.socketInterfaces = "=eth0"; })), State::Good,
         "eth0 (192.0.2.7), as NCCL_SOCKET_IFNAME says", "");
  expect(checkInterface(with([](auto& f) { f.socketInterfaces = "ib"; })), State::Wrong,
         "NCCL_SOCKET_IFNAME=ib is none that is up; there are eth0", "export TUTTI_INTERFACE=eth0");
}

// Interfaces by which no other host reaches this one, or another than is meant.
TEST(Doctor, DoubtsInterfacesOfThisHostAlone) {
  const auto wanting = [](const char* wanted) {
    return with([&](auto& f) {
      f.machine.interfaces.push_back({.name = "docker0", .addresses = {"172.17.0.1"}, .up = true});
      std::ranges::find(f.machine.interfaces, true, &topology::NetworkInterface::loopback)
          ->addresses = {"127.0.0.1", "10.99.0.1", "::1"};
      f.ownBridges = {"docker0"};
      f.wantedInterface = wanted;
    });
  };
  for (const char* wanted : {"lo", "127.0.0.1", "::1"})
    expect(checkInterface(wanting(wanted)), State::Wrong, "lo (", "export TUTTI_INTERFACE=eth0");
  expect(checkInterface(wanting("10.99.0.1")), State::Note, "lo (10.99.0.1), as TUTTI_INTERFACE",
         "export TUTTI_INTERFACE=eth0");
  for (const char* wanted : {"docker0", "172.17.0.1"})
    expect(checkInterface(wanting(wanted)), State::Note, "docker0 (172.17.0.1), as TUTTI_INTERFACE",
           "export TUTTI_INTERFACE=eth0");
  DoctorFacts bridged = wanting("docker0");  // with a port that is a device
  bridged.ownBridges.clear();
  expect(checkInterface(bridged), State::Good, "docker0 (", "");
}

TEST(Doctor, TriesToListen) {
  expect(checkListening(good()), State::Good, "a TCP port", "");
  expect(checkListening(with([](auto& f) { f.listening = "bind failed: EADDRINUSE"; })),
         State::Wrong, "EADDRINUSE", "ip_local_port_range");
  expect(checkListening(with([](auto& f) { f.machine.interfaces.clear(), f.listening = ""; })),
         State::Good, "on no interface", "");
}

TEST(Doctor, LooksAtRdmaPorts) {
  expect(checkRdma(good()), State::Good, "libibverbs 1.14.44.0, 8 of 8 ports active", "");
  expect(checkRdma(with([](auto& f) { f.machine.nics[2].ports[0].state = "down"; })), State::Note,
         "7 of 8 ports active: mlx5_2:1 is down", "ip link");
  const auto gids = [](auto& f, std::vector<std::string> types) {
    for (const std::string& type : types) f.machine.nics[5].ports[0].gids.push_back({.type = type});
  };
  expect(checkRdma(with([&](auto& f) { gids(f, {"RoCE v1"}); })), State::Slow,
         "only RoCE v1 on mlx5_5:1", "ip address add");
  expect(checkRdma(with([&](auto& f) { gids(f, {"RoCE v1", "RoCE v2"}); })), State::Good, "", "");
  expect(checkRdma(with([&](auto& f) { gids(f, {"InfiniBand"}); })), State::Good, "", "");
  expect(checkRdma(with([](auto& f) { f.machine.nics.clear(); })), State::Good, "no device", "");
  const auto without = [](auto& f) {
    std::erase_if(f.machine.libraries, [](const auto& l) { return l.name == "libibverbs"; });
    f.machine.libraries.push_back({.name = "libibverbs", .missing = "no such file"});
  };
  expect(checkRdma(with(without)), State::Note, "no libibverbs: no such file", "apt-get install");
  expect(checkRdma(with([&](auto& f) { without(f), f.machine.pciDevices.clear(); })), State::Good,
         "no libibverbs", "");
}

// What it prints a person copies into a shell.
TEST(Doctor, WritesWordsAsAShellTakesThem) {
  for (const char* plain : {"eth0", "mlx5_0:1,mlx5_1:1", "/a/b.c", "-x=1"})
    EXPECT_EQ(shellWord(plain), plain);
  for (const std::string word :
       {"", " eth0", "a b", "it's", "$HOME", "\\ud_v", "a*", "^ib", "a;b", "\"", "a\nb", "~"}) {
    const std::string command = exportOf("TUTTI_WORD", word) + "; printf '%s' \"$TUTTI_WORD\"";
    const tests::Output output = tests::runProgram(command);
    EXPECT_EQ(output.text, word) << command;
    EXPECT_EQ(output.exitCode, 0) << command;
  }
}

// Eight ports "mlx5_N:1", eth0, and the loopback.
TEST(Doctor, LooksWhetherUcxsDevicesAreThere) {
  const auto wanting = [](const char* value, const auto&... changes) {
    return checkUcxDevices(with([&](auto& f) { f.ucxDevices = value, (changes(f), ...); }));
  };
  expect(checkUcxDevices(with([](auto&) {})), State::Good, "UCX_NET_DEVICES is not set", "");
  expect(wanting(""), State::Wrong, "UCX_NET_DEVICES is set and empty", "unset UCX_NET_DEVICES");
  for (const char* value : {"mlx5_0:1", "mlx5_0:1,mlx5_7:1", "eth0", "all", "mlx5_1:1,all"})
    expect(wanting(value), State::Good, value, "");
  expect(wanting("mlx5_0:2"), State::Wrong, "UCX_NET_DEVICES=mlx5_0:2: mlx5_0:2 is no device here",
         "export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,");
  expect(wanting("eth7"), State::Wrong, "eth7 is no device here", "mlx5_7:1,eth0");
  expect(wanting("eth7,lo"), State::Wrong, "eth7 is no device here; lo: it leads every host to",
         "export UCX_NET_DEVICES=");
  expect(wanting("mlx5_0:1,mlx4_0:1,eth0"), State::Slow, ": mlx4_0:1 is no device here",
         "export UCX_NET_DEVICES=mlx5_0:1,eth0");
  for (const char* value : {",", ",,"})
    expect(wanting(value), State::Wrong, ": it names none", "export UCX_NET_DEVICES=mlx5_0:1,");
  for (const char* value : {"eth0,,mlx5_0:1", ",eth0,"})
    expect(wanting(value), State::Good, value, "");
  expect(wanting("mlx5_0:1, eth0"), State::Slow, ": ' eth0' is no device here",
         "export UCX_NET_DEVICES=mlx5_0:1");
  // UCX 1.13 compares whole names.
  expect(wanting("mlx5_3"), State::Wrong, "mlx5_3 lacks its port, as in mlx5_3:1", "mlx5_3:1,");
  expect(wanting("mlx5_*"), State::Wrong, "'mlx5_*' is no device here", "mlx5_3:1,");
  expect(wanting("^eth0,mlx5_0:1"), State::Wrong, "leaves out no devices",
         "export UCX_NET_DEVICES=mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
  const auto newer = [](auto& f) {
    std::ranges::find(f.machine.libraries, "UCX", &topology::LibraryVersion::name)->version =
        "1.20.0";
  };
  for (const char* value : {"mlx5_3", "^eth0,mlx5_0:1"})
    expect(wanting(value, newer), State::Good, value, "");
  const auto down = [](auto& f) {
    f.machine.nics[2].ports[0].state = "down";
    f.machine.interfaces[1].up = false;
  };
  expect(wanting("mlx5_2:1", down), State::Wrong, "mlx5_2:1: its port is down", "");
  expect(wanting("eth0", down), State::Wrong, "eth0: it is down", "");
  const auto bare = [](auto& f) {
    f.machine.nics.clear();
    f.machine.interfaces[1].addresses.clear();
  };
  expect(wanting("eth0", bare), State::Wrong, "eth0: it has no address", "unset UCX_NET_DEVICES");
}

TEST(Doctor, LooksWhetherUcxsTransportsJoinHosts) {
  const auto wanting = [](const char* value, const auto&... changes) {
    return checkUcxTransports(with([&](auto& f) { f.ucxTransports = value, (changes(f), ...); }));
  };
  expect(checkUcxTransports(with([](auto&) {})), State::Good, "UCX_TLS is not set", "");
  expect(wanting(""), State::Wrong, "UCX_TLS is set and empty", "unset UCX_TLS");
  const auto noPort = [](auto& f) { f.machine.nics.clear(); };
  for (const char* value : {"all", "tcp", "sm,tcp,self", "^ib", "^sm", "^cuda_ipc"}) {
    expect(wanting(value), State::Good, value, "");
    expect(wanting(value, noPort), State::Good, value, "");
  }
  for (const char* value : {"rc", "rc_x,self", "ib", "dc"}) {
    expect(wanting(value), State::Good, value, "");
    expect(wanting(value, noPort), State::Wrong, "leaves RDMA alone between hosts",
           base::message("export UCX_TLS=", value, ",tcp"));
  }
  expect(wanting("\\ud_v,sm"), State::Good, "\\ud_v,sm", "");
  expect(wanting("\\ud_v,sm", noPort), State::Wrong, "leaves RDMA alone between hosts",
         "export UCX_TLS='\\ud_v,sm,tcp'");
  expect(wanting("sm, tcp"), State::Wrong, "leaves nothing", "export UCX_TLS='sm, tcp,tcp'");
  expect(wanting(","), State::Wrong, "leaves nothing", "export UCX_TLS=tcp");
  expect(wanting("^tcp"), State::Good, "^tcp", "");
  expect(wanting("^tcp", noPort), State::Wrong, "leaves RDMA alone", "unset UCX_TLS");
  expect(wanting("^tcp,ib"), State::Wrong, "leaves nothing that joins hosts", "unset UCX_TLS");
  for (const char* value : {"sm", "shm", "self,sm", "posix,sysv", "cuda_copy,cuda_ipc"})
    expect(wanting(value), State::Wrong,
           base::message("UCX_TLS=", value, " leaves nothing that joins hosts"),
           base::message("export UCX_TLS=", value, ",tcp"));
}

TEST(Doctor, LooksAtTheTransportAndTheTuningTable) {
  const auto transport = [](const char* name) {
    return checkTransport(with([&](auto& f) { f.transport = name; }));
  };
  expect(transport(""), State::Good, "TUTTI_TRANSPORT is not set", "");
  expect(transport("ucx"), State::Good, "TUTTI_TRANSPORT=ucx", "");
  expect(transport("shm"), State::Note, "TUTTI_TRANSPORT=shm", "unset TUTTI_TRANSPORT");
  expect(transport("tcp"), State::Good, "TUTTI_TRANSPORT=tcp", "");
  expect(transport("udp"), State::Wrong,
         "TUTTI_TRANSPORT=udp is not shm, tcp, ucx, shm+tcp or shm+ucx", "unset TUTTI_TRANSPORT");
  expect(checkTuning(good()), State::Good, "TUTTI_TUNING is not set", "");
  expect(checkTuning(with([](auto& f) { f.tuning = "a.txt"; })), State::Good, "a.txt", "");
  expect(checkTuning(with([](auto& f) {
           f.tuning = "a.txt";
           f.readTuning = "a.txt, line 2: nonsense";
         })),
         State::Wrong, "TUTTI_TUNING: a.txt, line 2: nonsense", "tutti tune -n 8 -o");
}

TEST(Doctor, LooksForLibraries) {
  const auto without = [](const char* name) {
    return with([&](auto& f) {
      for (auto& l : f.machine.libraries)
        if (l.name == name) l = {.name = name, .missing = "no such file"};
      f.machine.gpus.clear();
    });
  };
  const auto ucxOf = [](const char* version) {
    return checkUcx(with([&](auto& f) {
      std::ranges::find(f.machine.libraries, "UCX", &topology::LibraryVersion::name)->version =
          version;
    }));
  };
  expect(checkUcx(good()), State::Good, "1.13.1; known, and worked around: setting names, half-",
         "");
  expect(ucxOf("1.22.0"), State::Good, "1.22.0; known, and worked around: no descriptor, half-",
         "");
  EXPECT_EQ(ucxOf("1.22.0").measured.find("setting names"), std::string::npos);
  EXPECT_EQ(ucxOf("of tomorrow").measured, "of tomorrow");
  expect(checkUcx(without("UCX")), State::Note, "no such file", "libucx0");
  expect(checkUcx({}), State::Note, "not looked for", "libucx0");
  expect(checkCuda(good()), State::Good, "driver for CUDA 12.4, 8 GPUs", "");
  expect(checkCuda(without("CUDA driver")), State::Note, "no such file; 8 NVIDIA GPUs", "nvidia");
  DoctorFacts none = without("CUDA driver");
  none.machine.pciDevices.clear();
  expect(checkCuda(none), State::Good, "no driver, no GPU", "");
  expect(checkInventory(with([](auto& f) {
           f.machine.problems = {"a", "b"};
         })),
         State::Note, "a; b", "");
}

TEST(Doctor, PrintsFindingsWithTheirMends) {
  const std::vector<Finding> findings{
      {.check = "clock", .measured = "tsc"},
      {.check = "open files",
       .state = State::Wrong,
       .measured = "limit 64",
       .why = "reasons",
       .mend = "ulimit -n 80"},
      {.check = "UCX", .state = State::Note, .measured = "none", .why = "it may be wanted"}};
  EXPECT_EQ(doctorText(findings, 8), R"(good   clock           tsc
wrong  open files      limit 64
                       why: reasons
                       mend: ulimit -n 80
note   UCX             none
                       why: it may be wanted

For 8 ranks on this host: 1 problem
)");
  const auto json = nlohmann::json::parse(doctorJson(findings, 8));
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["problems"], 1);
  EXPECT_EQ(json["findings"].size(), 3u);
  EXPECT_EQ(json["findings"][1]["state"], "wrong");
  EXPECT_EQ(json["findings"][1]["mend"], "ulimit -n 80");
  EXPECT_NE(doctorText({findings.data(), 1}, 1).find("For 1 rank on this host: nothing is wrong"),
            std::string::npos);
}

TEST(Doctor, CountsWhatIsSlowAsAProblemAndANoteAsNone) {
  for (const State state : {State::Good, State::Note, State::Slow, State::Wrong}) {
    const Finding found{.state = state};
    EXPECT_EQ(found.problem(), state == State::Slow || state == State::Wrong) << toString(state);
    EXPECT_EQ(nlohmann::json::parse(doctorJson({&found, 1}, 1))["problems"],
              found.problem() ? 1 : 0);
  }
}

TEST(Doctor, ReadsThisMachine) {
  const DoctorFacts f = readDoctorFacts(3);
  EXPECT_EQ(f.ranks, 3);
  EXPECT_FALSE(f.kernel.empty());
  EXPECT_GT(f.openFiles.soft, 0u);
  EXPECT_GE(f.openFiles.hard, f.openFiles.soft);
  EXPECT_GT(f.inboxBytes, 0u);
  EXPECT_GT(f.mappedBytes, f.inboxBytes);
  EXPECT_GT(f.descriptors, 3u);
  // The tests themselves need these.
  EXPECT_EQ(f.sealedMemory, "");
  EXPECT_EQ(f.processDescriptors, "");
  EXPECT_EQ(readDoctorFacts(0).ranks, std::max(1, f.machine.usableCores()));
}

TEST(DoctorOptions, AreReadOrRefused) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "doctor");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto parsed = parseDoctor(static_cast<int>(words.size()), words.data());
    testing::internal::GetCapturedStdout();
    testing::internal::GetCapturedStderr();
    return parsed;
  };
  const auto o = std::get<DoctorOptions>(parse({"--json", "-", "-n", "12"}));
  EXPECT_EQ(o.jsonFile, "-");
  EXPECT_EQ(o.ranks, 12);
  EXPECT_EQ(o.nccl, "");
  EXPECT_EQ(std::get<DoctorOptions>(parse({"--nccl", "python"})).nccl, "python");
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
  for (const char* wrong : {"--ranks=0", "--ranks=4097", "--fix", "everything"})
    EXPECT_EQ(std::get<int>(parse({wrong})), 2) << wrong;
}

}  // namespace
}  // namespace tutti::tools
