// The files of docs/examples/clusters that need no Slurm and no MPI: pages quote them as they are,
// and they start ranks that meet. Scripts stand in place of Docker, and of torchrun beside the real
// one; manifests are read as Kubernetes reads them, and their commands run with the variables of
// pods. Arguments: the executables of tutti and of launched_rank.cc, start_ranks.sh, and the folder
// docs/examples/clusters.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/launchers/free_port.h"
#include "tests/launchers/launcher_checks.h"

namespace tutti::launchers {
namespace {

namespace fs = std::filesystem;
using launcher::Command;
using launcher::TemporaryFolder;
using nlohmann::json;

const std::string kKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

// Pages.

TEST(Clusters, FilesAreQuotedOnOnePageEach) {
  std::vector<std::string> pages;
  for (const auto& page : fs::directory_iterator(fs::path(clusterScripts) / "../../how-to"))
    pages.push_back(tests::contentsOf(page.path()));
  int files = 0;
  for (const auto& file : fs::directory_iterator(clusterScripts)) {
    const std::string name = file.path().filename(), text = tests::contentsOf(file.path());
    ++files;
    const std::string link = "[" + name + "](../examples/clusters/" + name + "):";
    size_t quotes = 0;
    for (const std::string& page : pages)
      for (const char* language : {"bash", "sh", "yaml"})
        quotes += occurrences(page, link + "\n\n```" + language + "\n" + text + "```\n");
    EXPECT_EQ(quotes, 1u) << "docs/how-to does not show " << name << " as it is, after " << link;
  }
  EXPECT_GE(files, 8);
}

TEST(Clusters, ScriptsAreSoundAndCanBeStarted) {
  for (const auto& file : fs::directory_iterator(clusterScripts)) {
    const std::string path = file.path();
    if (path.ends_with(".yaml")) continue;
    const bool isBatch = path.ends_with(".sbatch");
    EXPECT_EQ(run({isBatch ? "bash" : "sh", "-n", path}).exitCode, 0) << path;
    EXPECT_EQ(run({"test", "-x", path}).exitCode == 0, !isBatch) << path;
  }
}

// Two hosts, both of which are this one.

fs::path standIns() { return fs::path(startRanksPath).parent_path() / "stand_ins"; }

/// Starts a script for two hosts at once in `folder`; `words` are those of one host by its number.
Result onTwoHosts(const TemporaryFolder& folder, const std::function<Words(int number)>& words) {
  tests::setContents(folder.path() / "job.key", kKey + "\n");
  const auto there = [&](int number) {
    Words all{"env", "-C", folder.path().string()};
    const Words more = words(number);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Command second(there(1));
  Result first = Command(there(0)).wait();
  const Result other = second.wait();
  return {first.exitCode ? first.exitCode : other.exitCode, first.out + other.out,
          first.err + other.err};
}

void runsTorchrunScript(const std::string& path) {
  const TemporaryFolder folder;
  const std::string port = std::to_string(freePort()), word = newWord();
  expectMet(onTwoHosts(folder,
                       [&](int number) {
                         return Words{path,
                                      "OMP_NUM_THREADS=1",
                                      "MASTER_PORT=" + port,
                                      clusterScripts + "/torchrun.sh",
                                      "127.0.0.1",
                                      "2",
                                      std::to_string(number),
                                      "2",
                                      rankPath,
                                      "meet",
                                      word};
                       }),
            "torchrun", 4);
}

TEST(Clusters, TorchrunScriptGivesTorchrunItsFlags) { runsTorchrunScript(pathBehind(standIns())); }

TEST(Clusters, TorchrunScriptRunsTheRealTorchrun) {
  const fs::path venv = launcher::besideTutti("../torch-venv/bin");
  const std::string program =
      fs::exists(venv / "torchrun") ? (venv / "torchrun").string() : find("torchrun");
  if (program.empty() || run({program, "--help"}).exitCode != 0)
    GTEST_SKIP() << "there is no torchrun that works, so no PyTorch";
  runsTorchrunScript(pathBehind(fs::path(program).parent_path()));
}

TEST(Clusters, ContainerScriptRunsRanksScriptOnEachHost) {
  const TemporaryFolder folder;
  fs::copy_file(clusterScripts + "/ranks.sh", folder.path() / "ranks.sh");
  const std::string address = "TUTTI_ADDRESS=127.0.0.1:" + std::to_string(freePort()),
                    word = newWord();
  expectMet(onTwoHosts(folder,
                       [&](int number) {
                         return Words{pathBehind(standIns()),
                                      address,
                                      clusterScripts + "/container.sh",
                                      "an-image",
                                      "2",
                                      std::to_string(number),
                                      "2",
                                      rankPath,
                                      "meet",
                                      word};
                       }),
            "tutti run", 4);
}

// What `docker stop` and Kubernetes do to the first process of a container.
TEST(Clusters, RanksScriptPassesATerminationOnAndWaits) {
  Command script({"env", "TUTTI_ADDRESS=127.0.0.1:1", clusterScripts + "/ranks.sh", "1", "0", "3",
                  "sh", "-c",
                  "trap 'sleep 0.3; echo saved $TUTTI_RANK; exit 0' TERM; echo ready; n=0; "
                  "while [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done; exit 5"});
  ASSERT_TRUE(launcher::eventually(
      [&] { return occurrences(script.outputSoFar(), "ready\n") == 3; }, std::chrono::seconds(40)));
  script.signal(SIGTERM);
  const Result result = script.wait();
  EXPECT_EQ(result.exitCode, 0) << result.out << result.err;
  for (const char* rank : {"0", "1", "2"})
    EXPECT_TRUE(contains(result.out, std::string("saved ") + rank + "\n")) << result.out;
}

TEST(Clusters, RanksScriptFailsWithARank) {
  const Result result = run({"env", "TUTTI_ADDRESS=127.0.0.1:1", clusterScripts + "/ranks.sh", "2",
                             "1", "3", "sh", "-c", "[ $TUTTI_RANK != 4 ] || exit 3"});
  EXPECT_EQ(result.exitCode, 3) << result.out << result.err;
}

// Kubernetes.

class Manifest : public testing::Test {
 protected:
  void SetUp() override {
    if (run({"python3", "-c", "import yaml"}).exitCode != 0)
      GTEST_SKIP() << "python3-yaml is not installed";
  }
  static json documents(const std::string& name) {
    const Result result = run({"python3", "-c",
                               "import json, sys, yaml\n"
                               "print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))",
                               clusterScripts + "/" + name});
    EXPECT_EQ(result.exitCode, 0) << result.err;
    return json::parse(result.out);
  }
  /// The container's variables in a pod of the job; where a key comes from, and a job's name.
  static Words variables(const json& container, const std::string& secret) {
    Words words;
    for (const json& entry : container.at("env")) {
      std::string value;
      if (entry.contains("value")) {
        value = entry.at("value").get<std::string>();  // Kubernetes takes no numbers
      } else if (entry.at("valueFrom").contains("secretKeyRef")) {
        EXPECT_EQ(entry.at("name"), "TUTTI_JOB_KEY");
        EXPECT_EQ(entry.at("valueFrom").at("secretKeyRef"),
                  json({{"name", secret}, {"key", "key"}}));
        value = kKey;
      } else {
        EXPECT_EQ(entry.at("name"), "TUTTI_JOB_ID");
        value = entry.at("valueFrom").at("fieldRef").at("fieldPath").get<std::string>();
        EXPECT_TRUE(value.starts_with("metadata.labels['")) << value;
      }
      words.push_back(entry.at("name").get<std::string>() + "=" + value);
    }
    return words;
  }
  static void replace(Words& variables, const std::string& from, const std::string& to) {
    size_t found = 0;
    for (std::string& variable : variables)
      if (variable == from) {
        variable = to;
        ++found;
      }
    EXPECT_EQ(found, 1u) << from;
  }
  /// Runs the container's command in so many pods, with ./program in its place.
  static Result inPods(const json& container, int pods, const Words& variables) {
    const TemporaryFolder folder;
    writeScript(folder.path() / "program", "exec " + rankPath + " meet " + newWord() + "\n");
    Words words{"env", "-C", folder.path().string(), startRanksPath, std::to_string(pods)};
    words.insert(words.end(), variables.begin(), variables.end());
    words.push_back("--");
    for (const char* part : {"command", "args"})
      for (const json& word : container.at(part)) words.push_back(word.get<std::string>());
    return run(words);
  }
};

TEST_F(Manifest, OfAnIndexedJobRunsItsPods) {
  const json all = documents("job.yaml");
  ASSERT_EQ(all.size(), 2u);
  const json &service = all[0], &job = all[1], &pod = job.at("spec").at("template").at("spec");
  EXPECT_EQ(service.at("apiVersion"), "v1");
  EXPECT_EQ(service.at("kind"), "Service");
  EXPECT_EQ(service.at("spec").at("clusterIP"), "None");
  EXPECT_EQ(service.at("spec").at("publishNotReadyAddresses"), true);
  const std::string name = job.at("metadata").at("name");
  EXPECT_EQ(service.at("spec").at("selector"), json({{"batch.kubernetes.io/job-name", name}}));
  EXPECT_EQ(job.at("apiVersion"), "batch/v1");
  EXPECT_EQ(job.at("kind"), "Job");
  EXPECT_EQ(job.at("spec").at("completionMode"), "Indexed");
  const int ranks = job.at("spec").at("completions");
  EXPECT_EQ(job.at("spec").at("parallelism"), ranks);
  EXPECT_EQ(pod.at("restartPolicy"), "OnFailure");
  EXPECT_EQ(pod.at("subdomain"), service.at("metadata").at("name"));

  const json& container = pod.at("containers").at(0);
  Words variables = Manifest::variables(container, name);
  // A pod's host name is the job's name and its index.
  replace(variables, "MASTER_ADDR=" + name + "-0." + pod.at("subdomain").get<std::string>(),
          "MASTER_ADDR=localhost");
  replace(variables, "MASTER_PORT=29500", "MASTER_PORT=" + std::to_string(freePort()));
  EXPECT_EQ(std::ranges::count(variables, "TUTTI_WORLD_SIZE=" + std::to_string(ranks)), 1);
  variables.push_back("JOB_COMPLETION_INDEX={}");
  expectMet(inPods(container, ranks, variables), "Kubernetes", ranks);
}

TEST_F(Manifest, OfALeaderWorkerSetRunsItsPods) {
  const json all = documents("leaderworkerset.yaml");
  ASSERT_EQ(all.size(), 1u);
  const json &set = all[0], &group = set.at("spec").at("leaderWorkerTemplate");
  EXPECT_EQ(set.at("apiVersion"), "leaderworkerset.x-k8s.io/v1");
  EXPECT_EQ(set.at("kind"), "LeaderWorkerSet");
  EXPECT_EQ(group.at("restartPolicy"), "RecreateGroupOnPodRestart");
  EXPECT_FALSE(group.contains("leaderTemplate"));  // so the leader has the workers'
  const int ranks = group.at("size");

  const json& container = group.at("workerTemplate").at("spec").at("containers").at(0);
  Words variables = Manifest::variables(container, set.at("metadata").at("name"));
  replace(variables, "MASTER_PORT=29500", "MASTER_PORT=" + std::to_string(freePort()));
  variables.insert(variables.end(),
                   {"LWS_WORKER_INDEX={}", "LWS_GROUP_SIZE=" + std::to_string(ranks),
                    "LWS_LEADER_ADDRESS=localhost"});
  expectMet(inPods(container, ranks, variables), "LeaderWorkerSet", ranks);
}

}  // namespace
}  // namespace tutti::launchers
