// The `tutti` command of build/tests/emulated, which runs on emulated GPUs, and the shipped one,
// which says that it has none. Arguments: the shipped one, the emulated one, and a library that
// stands in for NVML (fake_nvml.cc).

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

using Json = nlohmann::json;

std::string emulatedTutti, fakeNvml;
const tests::Arguments commandLine{
    {"TUTTI", &tuttiPath}, {"EMULATED_TUTTI", &emulatedTutti}, {"FAKE_NVML", &fakeNvml}};

Result runEmulated(std::vector<std::string> words, const std::vector<std::string>& variables = {}) {
  words.insert(words.begin(), emulatedTutti);
  return Command(std::move(words), {}, variables).wait();
}

void expectSays(const Result& run, int exitCode, const std::string& words) {
  EXPECT_EQ(run.exitCode, exitCode) << run.out << run.err;
  EXPECT_NE(run.err.find(words), std::string::npos) << run.err << "\n  lacks: " << words;
}

TEST(EmulatedTopo, ListsTheEmulatedDevices) {
  const Result text = runEmulated({"topo"});
  ASSERT_EQ(text.exitCode, 0) << text.err;
  for (const char* part :
       {"\nGPU 0         Tutti emulated sm_90, 2 GiB, compute capability 9.0, PCI ", "\nGPU 3 ",
        "NVLinks unknown"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const Json json = Json::parse(runEmulated({"topo", "--json", "-"}).out);
  ASSERT_EQ(json["gpus"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const std::string uuid = json["gpus"][i]["uuid"];
    EXPECT_EQ(uuid.size(), 40u) << uuid;
    EXPECT_TRUE(uuid.starts_with("GPU-")) << uuid;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(json["gpus"][j]["uuid"], uuid);
    EXPECT_NE(json["gpus"][i]["pci"], nullptr);
    EXPECT_EQ(json["gpus"][i]["reaches"], (std::vector<bool>{true, true, true, true}));
  }
}

/// The variable by which a program finds the stand-in where it looks for NVML.
std::string withFakeNvml() {
  const char* others = std::getenv("LD_LIBRARY_PATH");
  return "LD_LIBRARY_PATH=" + std::filesystem::path(fakeNvml).parent_path().string() +
         (others ? std::string(":") + others : "");
}

/// The lines about one of four GPUs.
std::string linesAbout(const std::string& text, int gpu) {
  const size_t first = text.find("\nGPU " + std::to_string(gpu) + " ");
  const size_t next =
      text.find(gpu == 3 ? "\nlibraries " : "\nGPU " + std::to_string(gpu + 1) + " ");
  if (first == std::string::npos || next == std::string::npos) return "";
  return text.substr(first, next - first);
}

TEST(EmulatedTopo, CountsTheNvLinksThatNvmlTellsOf) {
  const Result text = runEmulated({"topo"}, {withFakeNvml()});
  ASSERT_EQ(text.exitCode, 0) << text.err;
  const char* const words[] = {"18 NVLinks", "12 NVLinks", "0 NVLinks", "NVLinks unknown"};
  for (int gpu = 0; gpu < 4; ++gpu)
    EXPECT_NE(linesAbout(text.out, gpu).find(std::string("\n              ") + words[gpu] + ", "),
              std::string::npos)
        << words[gpu] << "\n"
        << text.out;
  const Json json =
      Json::parse(runEmulated({"topo", "--json", "-", "-n", "4"}, {withFakeNvml()}).out);
  const Json gpus = json["gpus"], pairs = json["gpu_pairs"];
  ASSERT_EQ(gpus.size(), 4u);
  EXPECT_EQ(gpus[0]["nvlinks"], 18);
  EXPECT_EQ(gpus[1]["nvlinks"], 12);
  EXPECT_EQ(gpus[2]["nvlinks"], 0);
  EXPECT_EQ(gpus[3]["nvlinks"], nullptr);
  ASSERT_EQ(pairs.size(), 6u);
  EXPECT_EQ(pairs[0]["how"], "by NVLink");                        // GPUs 0 and 1
  EXPECT_EQ(pairs[1]["how"], "by PCIe peer access");              // 0 and 2
  EXPECT_EQ(pairs[2]["how"], "by peer access, NVLinks unknown");  // 0 and 3
}

TEST(EmulatedTopo, WithoutDevicesSaysSo) {
  const Result text = runEmulated({"topo"}, {"TUTTI_EMULATION_DEVICES=0"});
  ASSERT_EQ(text.exitCode, 0) << text.err;
  EXPECT_NE(text.out.find("\nGPU           none\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\np2p           nobody: the CUDA driver shows no GPU\n"),
            std::string::npos)
      << text.out;
}

TEST(DeviceOption, EmulatedIsForTheEmulatedProgramsAlone) {
  const std::string words = "--device emulated: this program has no emulated GPUs";
  expectSays(runTutti({"perf", "all_reduce", "-n", "2", "--device", "emulated"}), 2, words);
  expectSays(Command({besideTutti("all_reduce_perf"), "--device", "emulated"}).wait(), 2, words);
  expectSays(runEmulated({"perf", "all_reduce", "--device", "cuda"}), 2,
             "--device cuda: this program runs on emulated GPUs alone");
  expectSays(runTutti({"perf", "all_reduce", "--device", "gpu"}), 2,
             "--device gpu does not exist: host, cuda or emulated");
}

void expectRight(const Result& run) {
  EXPECT_EQ(run.exitCode, 0) << run.out << run.err;
  EXPECT_NE(run.out.find("# Out of bounds values : 0 OK"), std::string::npos) << run.out;
}

// By processes, and by threads of one process.
TEST(DeviceOption, RunsCollectivesOnEmulatedGpus) {
  const std::vector<std::string> sizes = {"-b", "1K", "-e", "64K", "-f",       "8",
                                          "-n", "2",  "-w", "1",   "--device", "emulated"};
  expectRight(runEmulated({"perf", "all_reduce", "-n", "2", "-b", "1K", "-e", "64K", "-f", "8",
                           "--iters", "2", "-w", "1", "--device", "emulated"}));
  std::vector<std::string> likeNccl = {
      std::filesystem::path(emulatedTutti).parent_path() / "all_reduce_perf", "-g", "2"};
  likeNccl.insert(likeNccl.end(), sizes.begin(), sizes.end());
  expectRight(Command(likeNccl).wait());
}

// The timed calls as one graph, which is launched several times.
TEST(DeviceOption, MakesGraphsOfCalls) {
  for (const std::string program : {"all_reduce_perf", "sendrecv_perf"}) {
    const Result run =
        Command({std::filesystem::path(emulatedTutti).parent_path() / program, "-g", "2", "-b", "8",
                 "-e", "4K", "-f", "512", "-n", "3", "-w", "1", "-G", "2", "--device", "emulated"})
            .wait();
    expectRight(run);
    EXPECT_NE(
        run.out.find("time is that of 3 iterations, as a CUDA graph that is launched 2 times,"),
        std::string::npos)
        << run.out;
  }
}

TEST(DeviceOption, OfTheHostWorksInBoth) {
  const std::vector<std::string> words = {"perf", "all_reduce", "-n",      "2", "-b",       "1K",
                                          "-e",   "1K",         "--iters", "5", "--device", "host"};
  for (const Result& run : {runTutti(words), runEmulated(words)})
    EXPECT_EQ(run.exitCode, 0) << run.out << run.err;
}

TEST(DeviceOption, WithoutADeviceIsRefusedWithTheReason) {
  expectSays(
      runEmulated({"perf", "all_reduce", "--device", "emulated"}, {"TUTTI_EMULATION_DEVICES=0"}), 1,
      "--device emulated: CUDA finds no GPU: cudaGetDeviceCount: cudaErrorNoDevice");
  if (!Json::parse(runTutti({"topo", "--json", "-"}).out)["gpus"].empty())
    GTEST_SKIP() << "there are GPUs on this machine";
  expectSays(runTutti({"perf", "all_reduce", "--device", "cuda"}), 1,
             "--device cuda: CUDA finds no GPU: ");
}

}  // namespace
}  // namespace tutti::launcher
