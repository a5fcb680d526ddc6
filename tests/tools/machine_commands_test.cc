// `tutti topo` and `tutti doctor` as people run them, on whatever machine this is.

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/check.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

using Json = nlohmann::json;

/// Runs `tutti command...` under `prefix`, a part of a shell's command line.
Result underShell(const std::string& prefix, const std::string& command) {
  return runTutti({"run", "-n", "1", "--no-prefix", "--", "sh", "-c",
                   prefix + " " + tuttiPath + " " + command});
}

TEST(Commands, NameTheErrorOfALostOutput) {
  for (const char* words :
       {"--help", "topo", "doctor", "explain --help", "shard --help", "plan all_reduce -n 2",
        "perf all_reduce -n 1 -b 8 -e 8 --iters 1", "perf all_reduce -b 8 -e 8 --iters 1",
        "simulate all_reduce --topology h100-8 --ranks 8", "schedule --help", "run --help"}) {
    const Result lost = Command({"sh", "-c", tuttiPath + " " + words + " > /dev/full"}).wait();
    EXPECT_NE(lost.exitCode, 0) << words;
    EXPECT_TRUE(contains(lost.err, "standard output could not be written: No space left on device"))
        << words << ": " << lost.err;
  }
}

TEST(TopoCommand, ShowsThisMachine) {
  const Result run = runTutti({"topo", "--ranks", "3"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* part :
       {"\nNetwork\n", "\nlibraries     hwloc ", "\nTransports for 3 ranks on this host\n",
        "\nshm           the 3 ranks of this host (3 pairs), by shared memory\n", "\np2p ",
        "\nucx ", "\nrank 2  "})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << run.out;
}

TEST(TopoCommand, AgreesWithTheScheduler) {
  const Result run = runTutti({"topo", "--json", "-"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const Json json = Json::parse(run.out);
  cpu_set_t bound;
  ASSERT_EQ(sched_getaffinity(0, sizeof bound, &bound), 0);
  EXPECT_EQ(json["usable_pus"].size(), static_cast<size_t>(CPU_COUNT(&bound)));
  EXPECT_EQ(json["ranks"].size(), json["usable_cores"]);
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(json["host"], name);
}

TEST(TopoCommand, DrawsIntoAFileOrSaysWhyNot) {
  const auto file =
      std::filesystem::temp_directory_path() / base::message("tutti_topo_", getpid(), ".svg");
  const Result run = runTutti({"topo", "--json", "-", "--svg", file});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_TRUE(Json::accept(run.out));
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_TRUE(svg.str().starts_with("<svg")) << svg.str().substr(0, 80);
  EXPECT_TRUE(svg.str().ends_with("</svg>\n"));
  for (const auto& [wrong, why] : {std::pair{"/nowhere/at/all.svg", "No such file or directory"},
                                   std::pair{"/dev/full", "No space left on device"}}) {
    const Result lost = runTutti({"topo", "--svg", wrong});
    EXPECT_EQ(lost.exitCode, 1);
    EXPECT_EQ(lost.out, "");
    EXPECT_EQ(lost.err,
              base::message("tutti topo: --svg ", wrong, " cannot be written: ", why, "\n"));
  }
}

TEST(DoctorCommand, ItsExitCodeSaysWhetherThereAreProblems) {
  const Result run = runTutti({"doctor", "--json", "-", "--ranks", "1"});
  ASSERT_TRUE(Json::accept(run.out)) << run.out << run.err;
  const Json json = Json::parse(run.out);
  int problems = 0;
  for (const Json& f : json["findings"]) problems += f["state"] == "slow" || f["state"] == "wrong";
  EXPECT_EQ(json["problems"], problems);
  EXPECT_EQ(run.exitCode, problems == 0 ? 0 : 1);
  const Result text = runTutti({"doctor", "--ranks", "1"});
  EXPECT_EQ(text.exitCode, run.exitCode);
  EXPECT_NE(text.out.find("For 1 rank on this host: "), std::string::npos) << text.out;
}

TEST(DoctorCommand, SeesALimitAndHowToMendIt) {
  const Result files = underShell("ulimit -Sn 64;", "doctor -n 100");
  EXPECT_EQ(files.exitCode, 1);
  EXPECT_NE(files.out.find("wrong  open files      limit 64, "), std::string::npos) << files.out;
  EXPECT_NE(files.out.find("mend: ulimit -n "), std::string::npos) << files.out;
  const Result size = underShell("ulimit -Sf 1;", "doctor -n 4");
  EXPECT_NE(size.out.find("wrong  file size       limit "), std::string::npos) << size.out;
}

TEST(DoctorCommand, SeesMoreRanksThanCores) {
  const Result run = runTutti({"doctor", "--ranks", "4096"});
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_NE(run.out.find("slow   cores "), std::string::npos) << run.out;
}

TEST(DoctorCommand, SeesAnInterfaceThatIsNone) {
  const Result run = underShell("TUTTI_INTERFACE=nosuch0", "doctor -n 1");
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_NE(run.out.find("wrong  interface       TUTTI_INTERFACE=nosuch0 is none that is up"),
            std::string::npos)
      << run.out;
  EXPECT_EQ(underShell("TUTTI_SLOT_BYTES=many", "doctor").exitCode, 1);
}

TEST(DoctorCommand, SeesSettingsThatCannotBe) {
  TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning.txt";
  std::ofstream(file) << R"([[prefer]]
collective = "alltoall"
ranks = 2
hosts = 1
bytes = 4096
algorithm = "ring")";
  const struct {
    std::string set, said;
  } cases[] = {
      {"TUTTI_TUNING=" + file, "wrong  tuning "},
      {"TUTTI_TUNING=" + file + ".none", "wrong  tuning "},
      {"TUTTI_TRANSPORT=udp",
       "wrong  transport       TUTTI_TRANSPORT=udp is not shm, tcp, ucx, shm+tcp or shm+ucx"},
      {"UCX_NET_DEVICES=nosuch0", "wrong  UCX devices     UCX_NET_DEVICES=nosuch0: nosuch0 is no"},
      {"UCX_NET_DEVICES=", "wrong  UCX devices     UCX_NET_DEVICES is set and empty"},
      {"UCX_TLS=", "wrong  UCX transports  UCX_TLS is set and empty"},
      {"UCX_TLS=sm", "wrong  UCX transports  UCX_TLS=sm leaves nothing that joins hosts"},
  };
  for (const auto& [set, said] : cases) {
    const Result run = underShell(set, "doctor -n 1");
    EXPECT_EQ(run.exitCode, 1) << set;
    EXPECT_NE(run.out.find(said), std::string::npos) << set << "\n" << run.out;
  }
  EXPECT_NE(underShell(cases[0].set, "doctor -n 1").out.find("line 1"), std::string::npos);
}

TEST(MachineCommands, RefuseWrongFlagsWithCodeTwoAndAMessage) {
  for (const char* command : {"topo", "doctor"})
    for (const char* wrong : {"--no-such-flag", "--ranks=0", "--ranks=x", "extra"}) {
      const Result run = runTutti({command, wrong});
      EXPECT_EQ(run.exitCode, 2) << command << " " << wrong;
      EXPECT_EQ(run.out, "") << command << " " << wrong;
      EXPECT_NE(run.err, "") << command << " " << wrong;
    }
}

TEST(MachineCommands, AreInTheHelp) {
  const Result help = runTutti({"help"});
  EXPECT_NE(help.out.find("\n  topo "), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("\n  doctor "), std::string::npos) << help.out;
  for (const char* command : {"topo", "doctor"}) {
    const Result run = runTutti({command, "--help"});
    EXPECT_EQ(run.exitCode, 0);
    EXPECT_NE(run.out.find("--json FILE"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("--ranks"), std::string::npos) << run.out;
  }
}

}  // namespace
}  // namespace tutti::launcher
