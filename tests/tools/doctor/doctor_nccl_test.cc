// Which libnccl.so.2 a program loads: programs linked with one, Python by a stand-in, and what
// cannot be told; and which one the loader finds for a program without a path of its own. The
// arguments are a program that is linked with Tutti's, the stand-in, and a library that is not
// Tutti's.

#include "src/tools/doctor/doctor_nccl.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/check.h"
#include "src/tools/doctor/doctor.h"
#include "tests/support/child_processes.h"
#include "tests/support/environment_variables.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using namespace std::chrono_literals;
using tests::expectError;
using tests::outcomeOf;
using tests::TemporaryFolder;
using tests::withVariables;

std::string linkedProgram, standIn, otherLibrary;
const tests::Arguments commandLine{
    {"PROGRAM", &linkedProgram}, {"STAND_IN", &standIn}, {"OTHER_LIBRARY", &otherLibrary}};

std::string writeTo(const TemporaryFolder& folder, const std::string& name,
                    const std::string& text) {
  const std::string path = folder.path() / name;
  std::ofstream(path, std::ios::binary) << text;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(DoctorNccl, FindsTuttisInAProgramThatIsLinkedWithIt) {
  const NcclUse use = findNccl(linkedProgram, 20s);
  ASSERT_EQ(use.libraries.size(), 1U) << use.obstacle;
  EXPECT_TRUE(use.libraries[0].isTutti) << use.libraries[0].path;
  EXPECT_EQ(use.libraries[0].version, "2.32.3");
  const Finding found = checkNccl(use);
  EXPECT_FALSE(found.problem()) << found.measured << found.why;
  EXPECT_NE(found.measured.find(": Tutti's, NCCL 2.32.3"), std::string::npos) << found.measured;
  EXPECT_NE(doctorNcclText(found, "./sum").find("./sum loads Tutti's NCCL"), std::string::npos);
}

TEST(DoctorNccl, ReadsWhoseALibraryIs) {
  const TemporaryFolder folder;
  const std::string filler(5'000'000, 'x');
  const auto read = [&](const std::string& text) {
    return readNcclLibrary(writeTo(folder, "libnccl.so.2", text));
  };
  const NcclLibrary theirs = read("NCCL version %d" + filler + "NCCL version 2.30.7 with CUDA");
  EXPECT_FALSE(theirs.isTutti);
  EXPECT_EQ(theirs.version, "2.30.7");
  // Over the end of what is read at once.
  for (const size_t before : {(size_t{1} << 22) - 20, (size_t{1} << 22) - 5, size_t{1} << 22}) {
    const NcclLibrary ours = read(std::string(before, '\0') + "NCCL version 2.32.3+tutti0.2.0");
    EXPECT_TRUE(ours.isTutti) << before;
    EXPECT_EQ(ours.version, "2.32.3") << before;
  }
  EXPECT_EQ(read("nothing").version, "");
  EXPECT_EQ(read("").version, "");
  expectError(outcomeOf([] { readNcclLibrary("/nowhere/libnccl.so.2"); }),
              ErrorCode::InvalidArgument, "/nowhere/libnccl.so.2 cannot be read");
}

TEST(DoctorNccl, SaysHowToReplaceAnotherLibrary) {
  const NcclUse use{.program = "my program",
                    .libraries = {{"/wheel/libnccl.so.2", false, "2.30.7"}},
                    .own = "/opt/tutti/lib/tutti-nccl/libnccl.so.2"};
  const Finding found = checkNccl(use);
  EXPECT_TRUE(found.problem());
  EXPECT_EQ(found.measured, "/wheel/libnccl.so.2: not Tutti's, NCCL 2.30.7");
  EXPECT_EQ(found.mend, "LD_PRELOAD=/opt/tutti/lib/tutti-nccl/libnccl.so.2 'my program'");
  // Which one of two counts is not known.
  NcclUse both = use;
  both.libraries.push_back({"/opt/tutti/lib/tutti-nccl/libnccl.so.2", true, "2.32.3"});
  EXPECT_TRUE(checkNccl(both).problem());
}

TEST(DoctorNccl, SaysWhyItDoesNotKnow) {
  const Finding none = checkNccl(findNccl("/bin/ls", 20s));
  EXPECT_TRUE(none.problem());
  EXPECT_EQ(none.measured, "/bin/ls loads none");
  EXPECT_NE(none.why.find("not linked with NCCL"), std::string::npos) << none.why;
  const TemporaryFolder folder;
  const Finding script = checkNccl(findNccl(writeTo(folder, "script", "#!/bin/sh\n"), 20s));
  EXPECT_NE(script.why.find("it is a script"), std::string::npos) << script.why;
  EXPECT_EQ(script.mend, "tutti doctor --nccl INTERPRETER");
  expectError(outcomeOf([] { findNccl("no-such-program", 20s); }), ErrorCode::InvalidArgument,
              "there is no program no-such-program");
  expectError(outcomeOf([&] { findNccl(folder.path(), 20s); }), ErrorCode::InvalidArgument,
              "is a folder");
  const std::string text = writeTo(folder, "text", "words");
  EXPECT_EQ(findNccl(text, 20s).obstacle, "it is no program for this processor, or is damaged");
  std::filesystem::permissions(text, std::filesystem::perms::owner_read);
  expectError(outcomeOf([&] { findNccl(text, 20s); }), ErrorCode::InvalidArgument,
              "is not executable");
}

// As a script that finds the Python of a project is one.
TEST(DoctorNccl, AsksAScriptThatIsNamedAsPythonIs) {
  const TemporaryFolder folder;
  const std::string python =
      writeTo(folder, "python3", "#!/bin/sh\necho obstacle: no module; exit 1\n");
  EXPECT_EQ(findNccl(python, 20s).obstacle, "no module");
}

TEST(DoctorNccl, AsksPythonWhatPyTorchLoads) {
  const TemporaryFolder folder;
  const std::string python = folder.path() / "python3.99";
  std::filesystem::copy_file(standIn, python);
  const std::string theirs = writeTo(folder, "libnccl.so.2", "NCCL version 2.30.7+cuda");
  const std::string line = "library: " + theirs + "\n";
  withVariables({{"STAND_IN_OUTPUT", line.c_str()}}, [&] {
    const NcclUse use = findNccl(python, 20s);
    ASSERT_EQ(use.libraries.size(), 1U);
    EXPECT_EQ(use.libraries[0].version, "2.30.7");
    EXPECT_EQ(use.obstacle, "");
  });
  withVariables({{"STAND_IN_OUTPUT", "obstacle: import torch: No module named 'torch'\n"}}, [&] {
    const Finding found = checkNccl(findNccl(python, 20s));
    EXPECT_TRUE(found.problem());
    EXPECT_EQ(found.why, "import torch: No module named 'torch'");
  });
  withVariables({{"STAND_IN_STATUS", "3"}}, [&] {
    EXPECT_NE(findNccl(python, 20s).obstacle.find("it ended with status"), std::string::npos);
  });
  withVariables({{"STAND_IN_WAITS", "1"}}, [&] {
    EXPECT_EQ(findNccl(python, 300ms).obstacle, "it has not imported torch within 300 ms");
  });
}

/// What the loader finds, with these variables and no others.
std::string foundWith(const tests::Variables& variables) {
  std::string found;
  const TemporaryFolder folder;
  const std::string answer = folder.path() / "answer";
  withVariables(variables, [&] {
    const auto library = findLoadersNccl(20s);
    std::ofstream(answer) << (library ? library->describe() : "none");
  });
  return tests::contentsOf(answer);
}

TEST(LoadersNccl, IsTheFirstOnTheLoadersPath) {
  namespace fs = std::filesystem;
  const fs::path other = fs::canonical(otherLibrary), otherFolder = other.parent_path();
  const std::string theirs = other.string() + ": not Tutti's, NCCL 2.30.7";
  const NcclUse linked = findNccl(linkedProgram, 20s);
  ASSERT_EQ(linked.libraries.size(), 1U) << linked.obstacle;
  const std::string own = linked.libraries[0].path, ownFolder = fs::path(own).parent_path();
  EXPECT_EQ(foundWith({{"LD_LIBRARY_PATH", otherFolder.c_str()}}), theirs);
  const std::string both = ownFolder + ":" + otherFolder.string();
  EXPECT_EQ(foundWith({{"LD_LIBRARY_PATH", both.c_str()}}), own + ": Tutti's, NCCL 2.32.3");
  // What is preloaded goes before the path.
  EXPECT_EQ(foundWith({{"LD_LIBRARY_PATH", ownFolder.c_str()}, {"LD_PRELOAD", other.c_str()}}),
            theirs);
  EXPECT_EQ(foundWith({{"LD_LIBRARY_PATH", otherFolder.c_str()},
                       {"LD_PRELOAD", "/nowhere/libnccl.so.2"}}),
            theirs);
}

TEST(LoadersNccl, IsNoneWhereNobodyCanBeAsked) {
  EXPECT_EQ(tests::inChild([] {
              const rlimit none{0, 0};  // files: neither a pipe nor another process
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
              return findLoadersNccl(20s) ? 1 : 0;
            }),
            0);
}

}  // namespace
}  // namespace tutti::tools
