// Which control groups a made-up /proc says that this process is in.

#include "src/base/cgroups.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace tutti::base {
namespace {

using Lines = std::vector<std::string>;

/// "VERSION PATH FOLDER" of each group, where /proc/self/cgroup is this text.
Lines groupsOf(const std::string& controller, const std::string& text) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "self");
  tests::setContents(folder.path() / "self/cgroup", text);
  Lines found;
  for (const Cgroup& group : cgroupsOf(controller, {.proc = folder.path(), .cgroup = "/groups"}))
    found.push_back(std::to_string(group.version) + " " + group.path + " " + group.folder);
  return found;
}

TEST(Cgroups, AreTheOwnAndThoseAround) {
  EXPECT_EQ(groupsOf("cpu", "0::/job/step\n"),
            (Lines{"2 /job/step /groups/job/step/", "2 /job /groups/job/", "2 / /groups/"}));
  EXPECT_EQ(groupsOf("cpu", "0::/\n"), (Lines{"2 / /groups/"}));
}

TEST(Cgroups, OfVersion1AreTheControllers) {
  const std::string text = "12:cpuset:/set\n4:cpu,cpuacct:/job\n3:memory:/m\n";
  EXPECT_EQ(groupsOf("cpu", text), (Lines{"1 /job /groups/cpu/job/", "1 / /groups/cpu/"}));
  EXPECT_EQ(groupsOf("cpuset", text), (Lines{"1 /set /groups/cpuset/set/", "1 / /groups/cpuset/"}));
  EXPECT_EQ(groupsOf("pids", text), Lines{});
}

TEST(Cgroups, AreNoneWhereTheTextIsNone) {
  EXPECT_EQ(groupsOf("cpu", "\n0:\nx\n0::relative\n4:cpu:\n"), Lines{});
  EXPECT_TRUE(cgroupsOf("cpu", {.proc = "/nowhere", .cgroup = "/nowhere"}).empty());
}

}  // namespace
}  // namespace tutti::base
