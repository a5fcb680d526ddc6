// What made-up control groups leave a process of the processors' time.

#include "src/tools/doctor/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace tutti::tools {
namespace {

class CpuQuotas : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    tests::setContents(path, text);
  }
  base::CgroupFiles files() const {
    return {.proc = folder_.path() / "proc", .cgroup = folder_.path() / "cgroup"};
  }
  std::string quota() const {
    const auto found = cpuQuota(files());
    return found ? std::to_string(found->cpus).substr(0, 5) + " " + found->within : "none";
  }
  std::string set() const {
    const auto found = cpuSetLimit(files());
    return found ? std::to_string(found->count) + " " + found->within : "none";
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(CpuQuotas, AreNoneWithoutGroups) {
  EXPECT_EQ(quota(), "none");
  EXPECT_EQ(set(), "none");
}

TEST_F(CpuQuotas, OfVersion2AreTheNarrowest) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), "none");
  write("cgroup/cpu.max", "400000 100000\n");  // as a container sees its own
  EXPECT_EQ(quota(), "4.000 CPU cgroup / (400000 of each 100000 us)");
  write("cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), "1.500 CPU cgroup /job (150000 of each 100000 us)");
  write("cgroup/job/step/cpu.max", "1000 50000\n");
  EXPECT_EQ(quota(), "0.020 CPU cgroup /job/step (1000 of each 50000 us)");
}

TEST_F(CpuQuotas, OfVersion1AreInTwoFiles) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/job\n2:cpuset:/job\n");
  write("cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), "none");
  write("cgroup/cpu/job/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), "2.500 CPU cgroup /job (250000 of each 100000 us)");
  write("cgroup/cpuset/job/cpuset.cpus", "0-1\n");
  EXPECT_EQ(set(), "2 cpuset 0-1 of cgroup /job");
}

TEST_F(CpuQuotas, AreNoneWhereAFileHasNoNumbers) {
  write("proc/self/cgroup", "0::/\n");
  for (const char* text : {"", "much\n", "100000\n", "100000 0\n", "0 100000\n", "-5 100000\n"}) {
    write("cgroup/cpu.max", text);
    EXPECT_EQ(quota(), "none") << text;
  }
}

TEST_F(CpuQuotas, CountProcessorsOfTheInnermostSet) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("cgroup/job/cpuset.cpus.effective", "0-3,8,10-11\n");
  EXPECT_EQ(set(), "7 cpuset 0-3,8,10-11 of cgroup /job");
  write("cgroup/job/step/cpuset.cpus.effective", "5\n");
  EXPECT_EQ(set(), "1 cpuset 5 of cgroup /job/step");
  for (const char* text : {"\n", "all\n", "3-1\n", "0-\n", "-1\n", "1,,x\n"}) {
    write("cgroup/job/step/cpuset.cpus.effective", text);
    EXPECT_EQ(set(), "7 cpuset 0-3,8,10-11 of cgroup /job") << text;
  }
}

}  // namespace
}  // namespace tutti::tools
