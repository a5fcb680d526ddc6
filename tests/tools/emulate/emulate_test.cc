// `tutti emulate`: its command line, what it reads in programs' files, what it refuses and why, and
// what the program gets. Argument: the executable of tutti.

#include "src/tools/emulate/emulate.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include <tutti/error.h>

#include "src/tools/common/elf_file.h"
#include "src/tools/emulate/emulated_program.h"
#include "tests/emulation/environment.h"
#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using launcher::Command;
using launcher::contains;
using launcher::Result;
using tests::contentsOf;
using tests::setContents;
using tests::TemporaryFolder;

const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath}};

static_assert(kMostEmulatedDevices == emulation::kMaxDevices);

constexpr const char* kSelf = "/proc/self/exe";
const EmulationLibraries kLibraries{"/e/libcudart.so.13", "/e/libcuda.so.1", "/e/libnccl.so.2"};

template <class Call>
std::string refusalOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusalOf(const std::string& path) {
  return refusalOf([&] { requireEmulated(path, kLibraries); });
}

/// A program in a file of the folder.
class Programs {
 public:
  std::string add(const std::string& name, const std::string& contents) const {
    const std::filesystem::path path = folder_.path() / name;
    setContents(path, contents);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

/// This test's program with another text in the place of one as long.
std::string selfWith(const std::string& text, const std::string& other) {
  std::string all = contentsOf(kSelf);
  const size_t at = all.find('\0' + text + '\0');
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.size(), other.size());
  return all.replace(at + 1, text.size(), other);
}

/// This test's program, as if nothing had to start it.
std::string selfWithoutInterpreter() {
  std::string all = contentsOf(kSelf);
  ElfW(Ehdr) header;
  std::memcpy(&header, all.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    char* const at = all.data() + header.e_phoff + i * sizeof segment;
    std::memcpy(&segment, at, sizeof segment);
    if (segment.p_type == PT_INTERP) segment.p_type = PT_NULL;
    std::memcpy(at, &segment, sizeof segment);
  }
  return all;
}

using Words = std::vector<std::string>;

std::variant<EmulateOptions, int> parsed(const Words& words) {
  std::vector<const char*> arguments{"emulate"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parseEmulate(static_cast<int>(arguments.size()), arguments.data());
}

/// The first line that is printed of a wrong command line.
std::string refused(const Words& words) {
  testing::internal::CaptureStderr();
  const auto result = parsed(words);
  const std::string said = testing::internal::GetCapturedStderr();
  if (!std::holds_alternative<int>(result)) return "accepted";
  EXPECT_EQ(std::get<int>(result), 2);
  return said.substr(0, said.rfind(" (tutti emulate --help shows the flags)\n"));
}

TEST(Emulate, TakesItsOptions) {
  for (const Words& words :
       {Words{"--devices", "3", "a", "--devices"}, {"--devices=3", "--", "a", "--devices"}}) {
    const auto options = std::get<EmulateOptions>(parsed(words));
    EXPECT_EQ(options.devices, 3);
    EXPECT_EQ(options.command, (Words{"a", "--devices"}));
  }
  EXPECT_EQ(std::get<EmulateOptions>(parsed({"a"})).devices, 0);
  testing::internal::CaptureStdout();
  EXPECT_EQ(std::get<int>(parsed({"--help"})), 0);
  EXPECT_TRUE(contains(testing::internal::GetCapturedStdout(), "[--] PROGRAM [ARGUMENTS...]"));
}

TEST(Emulate, RefusesAWrongCommandLine) {
  for (const char* bad : {"0", "17", "-1", "2x", ""})
    EXPECT_EQ(refused({"--devices", bad, "a"}),
              std::string("tutti emulate: --devices: Value ") + bad + " not in range 1 to 16");
  EXPECT_EQ(refused({"--devices"}),
            "tutti emulate: --devices: 1 required INT:INT in [1 - 16] missing");
  EXPECT_EQ(refused({"--no-such", "a"}), "tutti emulate: there is no flag --no-such");
  for (const Words& none : {Words{}, {"--"}, {"--devices", "2"}, {""}})
    EXPECT_EQ(refused(none), "tutti emulate: PROGRAM is required");
}

TEST(Emulate, ReadsHowAProgramIsLinked) {
  const ElfFile self = readElfFile(kSelf);
  EXPECT_TRUE(self.isElf && self.isOfThisMachine && self.isDynamic);
  EXPECT_NE(std::find(self.needed.begin(), self.needed.end(), "libc.so.6"), self.needed.end());
  EXPECT_EQ(refusalOf(std::string(kSelf)), "accepted");
}

TEST(Emulate, RefusesWhatPreloadsNothing) {
  const Programs programs;
  EXPECT_TRUE(contains(refusalOf(programs.add("static", selfWithoutInterpreter())),
                       "static is statically linked, so that nothing can be preloaded"));
  std::string foreign = contentsOf(kSelf);
  foreign[offsetof(ElfW(Ehdr), e_machine)] = char(EM_RISCV);
  EXPECT_TRUE(contains(refusalOf(programs.add("foreign", foreign)), "for another processor"));
}

TEST(Emulate, RefusesOtherRuntimes) {
  const Programs programs;
  const std::string older = programs.add("older", selfWith("libstdc++.so.6", "libcudart.so.9"));
  EXPECT_TRUE(contains(refusalOf(older),
                       "older is linked with libcudart.so.9, and the emulation stands for "
                       "libcudart.so.13"));
  using std::string_literals::operator""s;
  const std::string inside = contentsOf(kSelf) + "\0libcuda.so.1\0\0cudaErrorInvalidKernelImage\0"s;
  EXPECT_TRUE(contains(refusalOf(programs.add("inside", inside)),
                       "inside has NVIDIA's CUDA runtime linked into it, which needs a GPU; link "
                       "it with the shared one: nvcc -cudart shared"));
}

// Nothing in a file may end the process.
TEST(Emulate, ReadsDamagedFiles) {
  const Programs programs;
  const std::string whole = contentsOf(kSelf);
  for (const size_t bytes : {0, 3, 4, 16, 63, 64, 100, 200, 500, 1000, 4000})
    EXPECT_FALSE(readElfFile(programs.add("cut", whole.substr(0, bytes))).hasCudaRuntime) << bytes;
  for (size_t at = 0; at < 64 + 14 * sizeof(ElfW(Phdr)); at += at < 64 ? 1 : 5) {
    std::string damaged = whole.substr(0, 64 << 10);
    damaged[at] = char(~damaged[at]);
    readElfFile(programs.add("damaged", damaged));
  }
  EXPECT_TRUE(contains(refusalOf(std::string("/no/such/file")), "cannot be read"));
}

TEST(Emulate, LooksAtAScriptsInterpreter) {
  const Programs programs;
  const std::string isStatic = programs.add("static", selfWithoutInterpreter());
  EXPECT_EQ(refusalOf(programs.add("a", "#!/bin/sh\n")), "accepted");
  EXPECT_EQ(refusalOf(programs.add("b", "#! /usr/bin/env -S X=1 sh -e\n")), "accepted");
  EXPECT_EQ(refusalOf(programs.add("c", "echo without a first line\n")), "accepted");
  EXPECT_TRUE(contains(refusalOf(programs.add("d", "#!" + isStatic + "\n")), "statically linked"));
  EXPECT_TRUE(contains(refusalOf(programs.add("e", "#!/no/such/python\n")),
                       "e asks for the interpreter /no/such/python: No such file"));
  EXPECT_TRUE(contains(refusalOf(programs.add("f", "#!/usr/bin/env no-such-python\n")),
                       "f asks for the interpreter no-such-python: No such file"));
  EXPECT_TRUE(contains(refusalOf(programs.add("g", "#!" + programs.path() + "/g\n")),
                       "scripts without an end"));
}

TEST(Emulate, KnowsProgramsOfOtherRights) {
  EXPECT_FALSE(changesRights(0755, 0, 0, 1000, 1000));
  EXPECT_TRUE(changesRights(04755, 0, 0, 1000, 1000));
  EXPECT_FALSE(changesRights(04755, 1000, 0, 1000, 1000));
  EXPECT_TRUE(changesRights(02755, 1000, 7, 1000, 1000));
  EXPECT_FALSE(changesRights(02755, 1000, 1000, 1000, 1000));
  if (getuid() != 0) return;  // who alone may give a program to another user
  const Programs programs;
  const std::string path = programs.add("mine", contentsOf(kSelf));
  ASSERT_EQ(chown(path.c_str(), 65534, 0), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_TRUE(contains(refusalOf(path), "mine runs with other rights than yours"));
}

TEST(Emulate, PreloadsBehindWhatIsThere) {
  const std::string mine = "/e/libcudart.so.13:/e/libcuda.so.1:/e/libnccl.so.2";
  EXPECT_EQ(kLibraries.preloadedAfter(""), mine);
  EXPECT_EQ(kLibraries.preloadedAfter("/x.so"), "/x.so:" + mine);
}

/// The command, as if it were installed, with libraries that are none: the dynamic linker says so,
/// and starts the program all the same.
class EmulateCommand : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path bin = folder_.path() / "bin";
    std::filesystem::create_directories(bin);
    std::filesystem::copy_file(launcher::tuttiPath, bin / "tutti");
  }
  std::filesystem::path libraries() const { return folder_.path() / TUTTI_TEST_EMULATION_FOLDER; }
  void install() const {
    std::filesystem::create_directories(libraries());
    for (const char* name : {"libcudart.so.13", "libcuda.so.1", "libnccl.so.2"})
      setContents(libraries() / name, "");
  }
  Result run(std::vector<std::string> words, const std::vector<std::string>& variables = {}) const {
    words.insert(words.begin(), {(folder_.path() / "bin/tutti").string(), "emulate"});
    return Command(words, {}, variables).wait();
  }
  TemporaryFolder folder_;
};

TEST_F(EmulateCommand, SaysHowToInstallTheEmulation) {
  const Result result = run({"true"});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_TRUE(contains(result.err, "the emulation is not installed in " + libraries().string()));
  EXPECT_TRUE(contains(result.err, "cmake --install build --component emulation"));
}

TEST_F(EmulateCommand, GivesTheProgramItsEnvironment) {
  install();
  const std::string script = "echo \"$LD_PRELOAD\" $TUTTI_EMULATION_DEVICES \"$@\"; exit 7";
  EXPECT_EQ(run({"sh", "-c", "echo $TUTTI_EMULATION_TIMEOUT"}).out, "3600\n");
  EXPECT_EQ(run({"sh", "-c", "echo $TUTTI_EMULATION_TIMEOUT"}, {"TUTTI_EMULATION_TIMEOUT=9"}).out,
            "9\n");
  const std::string mine = libraries().string() + "/libcudart.so.13:" + libraries().string() +
                           "/libcuda.so.1:" + libraries().string() + "/libnccl.so.2";
  Result result = run({"--devices", "3", "--", "sh", "-c", script, "sh", "--devices"});
  EXPECT_EQ(result.exitCode, 7);
  EXPECT_EQ(result.out, mine + " 3 --devices\n");
  result = run({"sh", "-c", script}, {"LD_PRELOAD=/x.so"});
  EXPECT_EQ(result.out, "/x.so:" + mine + " 2\n");
  result = run({"sh", "-c", script}, {"TUTTI_EMULATION_DEVICES=5"});
  EXPECT_EQ(result.out, mine + " 5\n");
  result = run({"--devices=4", "sh", "-c", script}, {"TUTTI_EMULATION_DEVICES=5"});
  EXPECT_EQ(result.out, mine + " 4\n");
}

TEST_F(EmulateCommand, SaysWhyItStartsNothing) {
  install();
  Result result = run({"no-such-program"});
  EXPECT_EQ(result.exitCode, 127);
  EXPECT_EQ(result.err, "tutti emulate: no-such-program: No such file or directory\n");
  result = run({folder_.path()});
  EXPECT_EQ(result.exitCode, 126);
  const std::string path = folder_.path() / "static";
  setContents(path, selfWithoutInterpreter());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  result = run({path});
  EXPECT_EQ(result.exitCode, 126);
  EXPECT_TRUE(contains(result.err, path + " is statically linked"));
  result = run({"--devices", "many", path});
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_TRUE(contains(result.err, "(tutti emulate --help shows the flags)"));
}

// `tutti run` has CUDA's runtime linked into it, and starts programs that have not.
TEST_F(EmulateCommand, StartsTuttiRun) {
  install();
  const Result result = run({"--devices", "3", "--", (folder_.path() / "bin/tutti").string(), "run",
                             "-n", "2", "sh", "-c", "echo $TUTTI_EMULATION_DEVICES"});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "[0] 3\n") && contains(result.out, "[1] 3\n")) << result.out;
}

}  // namespace
}  // namespace tutti::tools
