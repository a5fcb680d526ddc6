// Who a rank is, from variables: every launcher's table row, and every way to get it wrong.

#include "src/bootstrap/discover.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <tuple>

#include <tutti/log.h>

#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

using Variables = std::map<std::string, std::string>;
const std::string kKey = "0123456789abcdef-a-job-key";

Identity find(const Variables& variables, const CommunicatorOptions& options = {}) {
  return discover(options, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

void expectError(const Variables& variables, ErrorCode code, const std::string& part) {
  try {
    const Identity identity = find(variables);
    if (identity.malformed) throw Error(*identity.malformed);  // as join() does
    ADD_FAILURE() << "rank " << identity.rank << " of " << identity.size << ", not: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}
void expectInvalid(const Variables& variables, const std::string& part) {
  expectError(variables, ErrorCode::InvalidArgument, part);
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::string anId() { return encode(randomRendezvous()).toHex(); }

const Variables kTorch{{"RANK", "3"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29500"}};

TEST(Discover, WithoutALauncherThisIsRankZeroOfOne) {
  const Identity identity = find({});
  EXPECT_EQ(identity.rank, 0);
  EXPECT_EQ(identity.size, 1);
  EXPECT_EQ(identity.source, "no launcher");
}

TEST(Discover, ExplicitArgumentsWin) {
  CommunicatorOptions options{.id = encode(randomRendezvous()), .rank = 1, .size = 2};
  const Identity identity = find(kTorch, options);
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.size, 2);
  EXPECT_EQ(identity.id, *options.id);
  options.rank = 2;
  EXPECT_THROW(find({}, options), Error);
  options.rank = 0;
  options.size = 1'000'000'000;
  EXPECT_THROW(find({}, options), Error);
  EXPECT_THROW(find({}, {.rank = 0, .size = 2}), Error);
  EXPECT_THROW(find({}, {.id = UniqueId{}, .rank = 0, .size = 2}), Error);
}

TEST(Discover, TuttiRunComesBeforeTorchrun) {
  const UniqueId id = encode(randomRendezvous());
  const Identity identity = find(with(kTorch, {{"TUTTI_RANK", "1"},
                                               {"TUTTI_WORLD_SIZE", "2"},
                                               {"TUTTI_LOCAL_RANK", "1"},
                                               {"TUTTI_UNIQUE_ID", id.toHex()}}));
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.size, 2);
  EXPECT_EQ(identity.id, id);
  EXPECT_EQ(identity.source, "tutti run");
}

TEST(Discover, TheDamagedIdOfTuttiRunIsNamed) {
  std::string hex = encode(randomRendezvous()).toHex();
  hex[200] = hex[200] == '0' ? '1' : '0';
  expectInvalid({{"TUTTI_RANK", "0"}, {"TUTTI_WORLD_SIZE", "2"}, {"TUTTI_UNIQUE_ID", hex}},
                "TUTTI_UNIQUE_ID");
  expectInvalid({{"TUTTI_RANK", "0"}, {"TUTTI_WORLD_SIZE", "2"}, {"TUTTI_UNIQUE_ID", "ab"}},
                "TUTTI_UNIQUE_ID");
  expectInvalid({{"TUTTI_RANK", "0"}, {"TUTTI_WORLD_SIZE", "2"}}, "TUTTI_UNIQUE_ID");
}

TEST(Discover, EveryRankOfALauncherDerivesTheSameRendezvous) {
  const Identity three = find(kTorch);
  const Identity zero = find(with(kTorch, {{"RANK", "0"}}));
  EXPECT_EQ(three.source, "torchrun");
  EXPECT_EQ(three.rank, 3);
  EXPECT_EQ(three.id, zero.id);
  const Rendezvous point = decode(three.id);
  EXPECT_EQ(point.address.family, wire::Family::Unix);
  EXPECT_TRUE(point.credentials.sameUser && point.openedByRankZero);
  // Another port, and another run at the same port, are other jobs.
  EXPECT_NE(find(with(kTorch, {{"MASTER_PORT", "29501"}})).id, three.id);
  EXPECT_NE(find(with(kTorch, {{"TORCHELASTIC_RUN_ID", "7"}})).id, three.id);
}

TEST(Discover, AJobKeyMeansTcpAtTheLaunchersAddress) {
  const Identity identity = find(with(kTorch, {{"TUTTI_JOB_KEY", kKey}}));
  const Rendezvous point = decode(identity.id);
  EXPECT_EQ(point.address.describe(), "127.0.0.1:29500");
  EXPECT_FALSE(point.credentials.sameUser);
  const Identity other = find(with(kTorch, {{"TUTTI_JOB_KEY", kKey + "x"}}));
  EXPECT_NE(decode(other.id).credentials.secret, point.credentials.secret);
  expectInvalid(with(kTorch, {{"TUTTI_JOB_KEY", "short"}}), "TUTTI_JOB_KEY");
  // torchrun's own store has the port.
  const Identity beside =
      find(with(kTorch, {{"TUTTI_JOB_KEY", kKey}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_EQ(decode(beside.id).address.describe(), "127.0.0.1:29501");
  const Identity named = find(with(kTorch, {{"TUTTI_JOB_KEY", kKey},
                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                            {"TUTTI_ADDRESS", "[::1]:4000"}}));
  EXPECT_EQ(decode(named.id).address.describe(), "[::1]:4000");
}

TEST(Discover, SeveralHostsWithoutAKeyAreRefusedUnlessAskedForByName) {
  const Variables far = with(kTorch, {{"LOCAL_WORLD_SIZE", "2"}});
  expectError(far, ErrorCode::Refused, "TUTTI_JOB_KEY");
  const Identity identity = find(with(far, {{"TUTTI_ALLOW_UNAUTHENTICATED", "1"}}));
  EXPECT_EQ(decode(identity.id).address.describe(), "127.0.0.1:29500");
  EXPECT_THROW(find(with(far, {{"TUTTI_ALLOW_UNAUTHENTICATED", "yes"}})), Error);
}

TEST(Discover, ATextOfTheUsersTellsJobsApart) {
  for (const Variables& job : {kTorch, with(kTorch, {{"TUTTI_JOB_KEY", kKey}})}) {
    const UniqueId unnamed = find(job).id;
    const UniqueId one = find(with(job, {{"TUTTI_JOB_ID", "one"}})).id;
    EXPECT_EQ(find(with(job, {{"TUTTI_JOB_ID", "one"}, {"RANK", "0"}})).id, one);
    EXPECT_NE(find(with(job, {{"TUTTI_JOB_ID", "two"}})).id, one);
    EXPECT_NE(unnamed, one);
  }
}

TEST(Discover, JobsThatNothingTellsApartAreWarnedAboutByRankZero) {
  std::vector<std::string> log;
  setLogSink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::Warning) log.emplace_back(line);
  });
  const Variables zero =
      with(kTorch, {{"RANK", "0"}, {"TUTTI_JOB_KEY", "a key of enough letters"}});
  const Variables hosts = with(zero, {{"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}});
  find(with(zero, {{"RANK", "1"}}));
  find(with(zero, {{"TUTTI_JOB_ID", "one"}}));
  EXPECT_FALSE(
      decode(find(with(hosts, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).id).mayBeAnothersToo);
  EXPECT_EQ(log, std::vector<std::string>{});
  EXPECT_TRUE(decode(find(zero).id).mayBeAnothersToo);
  find(with(hosts, {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  setLogSink({});
  const std::string line =
      "nothing tells this job from another one that meets at 127.0.0.1:29500 with the same key: "
      "set "
      "TUTTI_JOB_ID to a text of this job's own on all its ranks";
  EXPECT_EQ(log, (std::vector<std::string>{line, line}));
}

TEST(Discover, AttemptsOfAJobAreToldApart) {
  const Variables slurm{{"SLURM_PROCID", "1"},
                        {"SLURM_NTASKS", "2"},
                        {"SLURM_JOB_ID", "17"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NUM_NODES", "1"}};
  for (const auto& [job, attempt] :
       {std::pair(slurm, "SLURM_RESTART_COUNT"), {kTorch, "TORCHELASTIC_RESTART_COUNT"}})
    EXPECT_NE(find(with(job, {{attempt, "1"}})).id, find(with(job, {{attempt, "2"}})).id);
}

// Hosts name the interface to one link differently.
TEST(Discover, TheZoneOfALinkLocalAddressIsEachRanksOwn) {
  const Variables keyed = with(kTorch, {{"TUTTI_JOB_KEY", "a key of enough letters"}});
  const Rendezvous one = decode(find(with(keyed, {{"MASTER_ADDR", "fe80::1%lo"}})).id);
  EXPECT_EQ(one.address.describe(), "[fe80::1%lo]:29500");
  const Rendezvous other = decode(find(with(keyed, {{"MASTER_ADDR", "fe80::1%4711"}})).id);
  EXPECT_EQ(other.address.zone, 4711U);
  EXPECT_EQ(other.credentials.job, one.credentials.job);
  EXPECT_EQ(other.credentials.secret, one.credentials.secret);
  expectInvalid(with(keyed, {{"MASTER_ADDR", "fe80::1"}}), "write fe80::1%INTERFACE");
  expectInvalid(with(keyed, {{"MASTER_ADDR", "fe80::1%nosuch"}}), "nosuch is no interface");
}

struct Row {
  const char* source;
  Variables variables;
};

class DiscoverLaunchers : public testing::TestWithParam<Row> {};

TEST_P(DiscoverLaunchers, WithAKeyAndAnAddress) {
  const Variables where{{"TUTTI_JOB_KEY", kKey}, {"TUTTI_ADDRESS", "127.0.0.1:4321"}};
  const Identity identity = find(with(GetParam().variables, where));
  EXPECT_EQ(identity.source, GetParam().source);
  EXPECT_EQ(identity.rank, 2);
  EXPECT_EQ(identity.size, 6);
  EXPECT_EQ(decode(identity.id).address.describe(), "127.0.0.1:4321");
  expectInvalid(with(GetParam().variables, {{"TUTTI_JOB_KEY", kKey}}), "TUTTI_ADDRESS or ");
  expectInvalid(with(GetParam().variables, {{"TUTTI_ADDRESS", "nowhere"}}), "TUTTI_ADDRESS");
  expectInvalid(with(GetParam().variables, {{"TUTTI_ADDRESS", "h:0"}}), "TUTTI_ADDRESS");
}

INSTANTIATE_TEST_SUITE_P(
    All, DiscoverLaunchers,
    testing::Values(Row{"Slurm",
                        {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "6"}, {"SLURM_STEP_ID", "0"}}},
                    Row{"Open MPI", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "6"}}},
                    Row{"MPICH", {{"PMI_RANK", "2"}, {"PMI_SIZE", "6"}, {"MPI_LOCALNRANKS", "3"}}},
                    Row{"PMI", {{"PMI_RANK", "2"}, {"PMI_SIZE", "6"}}},
                    Row{"PMIx", {{"PMIX_RANK", "2"}, {"TUTTI_WORLD_SIZE", "6"}}},
                    Row{"Kubernetes", {{"JOB_COMPLETION_INDEX", "2"}, {"TUTTI_WORLD_SIZE", "6"}}},
                    Row{"LeaderWorkerSet", {{"LWS_WORKER_INDEX", "2"}, {"LWS_GROUP_SIZE", "6"}}}));

// On one host the launcher's name of the job is enough.
TEST(Discover, ALaunchersJobOnOneHostNeedsNoAddress) {
  const Variables slurm{{"SLURM_PROCID", "1"},
                        {"SLURM_NTASKS", "2"},
                        {"SLURM_JOB_ID", "17"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NUM_NODES", "1"}};
  const Variables openMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_NAMESPACE", "1234"},
                          {"OMPI_MCA_orte_precondition_transports", "0123-4567"}};
  for (const auto& [job, rank, another, hosts] :
       std::vector<std::tuple<Variables, const char*, Variables, Variables>>{
           {slurm, "SLURM_PROCID", {{"SLURM_STEP_ID", "1"}}, {{"SLURM_STEP_NUM_NODES", "2"}}},
           {openMpi,
            "OMPI_COMM_WORLD_RANK",
            {{"PMIX_NAMESPACE", "1235"}},
            {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}},
           {openMpi,
            "OMPI_COMM_WORLD_RANK",
            {{"OMPI_MCA_orte_precondition_transports", "0123-4568"}},
            {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}}}) {
    const Identity one = find(job);
    const Rendezvous point = decode(one.id);
    EXPECT_EQ(point.address.family, wire::Family::Unix);
    EXPECT_TRUE(point.credentials.sameUser);
    EXPECT_EQ(find(with(job, {{rank, "0"}})).id, one.id);
    EXPECT_NE(find(with(job, another)).id, one.id);
    const Identity keyed = find(with(job, {{"TUTTI_JOB_KEY", kKey}}));
    EXPECT_EQ(decode(keyed.id).address, point.address);
    EXPECT_NE(decode(keyed.id).credentials.secret, point.credentials.secret);
    expectInvalid(with(job, hosts),
                  "nothing says where they meet and who may join: set TUTTI_ADDRESS or MASTER_ADDR "
                  "and MASTER_PORT, and TUTTI_JOB_KEY");
    expectInvalid(with(job, with(hosts, {{"TUTTI_JOB_KEY", kKey}})),
                  "nothing says where they meet: set");
    expectError(with(job, with(hosts, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}})),
                ErrorCode::Refused, "TUTTI_JOB_KEY");
  }
}

// `tutti run` gives an id, too.
TEST(Discover, VariablesSetByHandAreNotTuttiRuns) {
  const Variables job{{"TUTTI_RANK", "1"}, {"TUTTI_WORLD_SIZE", "2"}};
  expectInvalid(job, "TUTTI_RANK says rank 1 of 2, and nothing says where they meet");
  expectError(with(job, {{"TUTTI_ADDRESS", "h:1"}}), ErrorCode::Refused,
              "TUTTI_RANK says rank 1 of 2, which may be on several hosts");
}

// MPICH names no job; the process that started the ranks is at the other end of their PMI socket.
TEST(Discover, MpichsJobIsItsProxy) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Variables job{{"PMI_RANK", "1"},
                      {"PMI_SIZE", "2"},
                      {"MPI_LOCALNRANKS", "2"},
                      {"PMI_FD", std::to_string(ends[0])}};
  const Identity one = find(job);
  EXPECT_EQ(decode(one.id).address.family, wire::Family::Unix);
  EXPECT_EQ(find(with(job, {{"PMI_RANK", "0"}, {"PMI_FD", std::to_string(ends[1])}})).id, one.id);
  // Of several hosts each has a proxy of its own.
  const Variables hosts = with(
      job,
      {{"MPI_LOCALNRANKS", "1"}, {"TUTTI_JOB_KEY", kKey}, {"TUTTI_ADDRESS", "127.0.0.1:4000"}});
  EXPECT_EQ(find(hosts).id, find(with(hosts, {{"PMI_FD", ""}})).id);
  ::close(ends[0]);
  ::close(ends[1]);
  expectInvalid(job, "nothing says where they meet");
  expectInvalid(with(job, {{"PMI_FD", "x"}}), "PMI_FD=x");
}

// mpirun and mpiexec inside a Slurm job start their ranks as, or below, one task of one step.
TEST(Discover, TheInnerLauncherCounts) {
  const Variables task{{"SLURM_PROCID", "0"},         {"SLURM_STEP_NUM_TASKS", "1"},
                       {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_JOB_ID", "17"},
                       {"SLURM_STEP_ID", "0"},        {"TUTTI_UNIQUE_ID", anId()}};
  for (const auto& [name, variables] : std::vector<std::pair<std::string, Variables>>{
           {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}}},
           {"MPICH", {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}}},
           {"torchrun", {{"RANK", "1"}, {"WORLD_SIZE", "3"}}},
           {"tutti run", {{"TUTTI_RANK", "1"}, {"TUTTI_WORLD_SIZE", "3"}}}}) {
    const Identity identity = find(with(task, variables));
    EXPECT_EQ(identity.source, name);
    EXPECT_EQ(identity.rank, 1);
    EXPECT_EQ(identity.size, 3);
  }
  // srun --mpi=pmi2 and --mpi=pmix
  for (const Variables& store :
       {Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMI_FD", "99"}, {"PMI_JOBID", "17.0"}},
        Variables{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.17.0"}}})
    EXPECT_EQ(find(with(task, store)).source, "Slurm");
}

TEST(Discover, PmixAloneNeedsASizeFromElsewhere) {
  expectInvalid({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-n1-7@1"}}, "TUTTI_WORLD_SIZE");
}

TEST(Discover, AVariableThatHasStayedIsPointedOut) {
  std::vector<std::string> log;
  setLogSink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::Warning) log.emplace_back(line);
  });
  const Variables slurm{
      {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_ID", "0"}};
  const Variables alone{{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  find(alone);
  find(with(alone, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_ID", "0"}}));
  find(with(alone, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}}));  // a batch script
  EXPECT_EQ(log, std::vector<std::string>{});
  find(with(alone, slurm));
  setLogSink({});
  EXPECT_EQ(log, std::vector<std::string>{
                     "torchrun says that this process is alone, and Slurm says rank 2 of 3: it is "
                     "taken to be alone"});
}

TEST(Discover, ALeaderWorkerSetIsNeverTakenForOneRank) {
  const Variables worker{
      {"LWS_WORKER_INDEX", "1"}, {"LWS_GROUP_SIZE", "2"}, {"LWS_LEADER_ADDRESS", "127.0.0.1"}};
  expectInvalid(worker, "MASTER_PORT");
  expectError(with(worker, {{"MASTER_PORT", "4000"}}), ErrorCode::Refused, "TUTTI_JOB_KEY");
  const Identity identity = find(with(worker, {{"MASTER_PORT", "4000"}, {"TUTTI_JOB_KEY", kKey}}));
  EXPECT_EQ(decode(identity.id).address.describe(), "127.0.0.1:4000");
}

TEST(Discover, MalformedAndContradictoryVariablesAreNamed) {
  for (const char* bad : {"-1", "x", "1e3", " 3", "3 ", "99999999999999999999", "4"})
    expectInvalid(with(kTorch, {{"RANK", bad}}), "RANK=" + std::string(bad));
  for (const char* bad : {"0", "-1", "1000000000", "four"})
    expectInvalid(with(kTorch, {{"WORLD_SIZE", bad}}), "WORLD_SIZE=" + std::string(bad));
  for (const char* bad : {"0", "65536", "http"})
    expectInvalid(with(kTorch, {{"MASTER_PORT", bad}}), "MASTER_PORT=" + std::string(bad));
  expectInvalid({{"RANK", "0"}}, "WORLD_SIZE");
  expectInvalid({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}, "MASTER_PORT");
  expectInvalid({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, "MASTER_ADDR");
  expectInvalid(with(kTorch, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5");
}

// What does not say where the ranks meet need not be right to find them.
TEST(Discover, AMalformedRankKnowsWhereTheOthersMeet) {
  const UniqueId here = find(kTorch).id;
  const Variables key{{"TUTTI_JOB_KEY", kKey}};
  const UniqueId far = find(with(kTorch, key)).id;
  for (const auto& [name, value] : {std::pair{"RANK", "x"},
                                    {"RANK", "4"},
                                    {"WORLD_SIZE", "x"},
                                    {"WORLD_SIZE", ""},
                                    {"LOCAL_WORLD_SIZE", "5"}}) {
    const Variables wrong = with(kTorch, {{name, value}});
    const bool ofRank = name == std::string("RANK"), ofSize = name == std::string("WORLD_SIZE");
    const Identity identity = find(wrong);
    EXPECT_TRUE(identity.malformed);
    EXPECT_EQ(identity.id, here);
    EXPECT_EQ(identity.rank, ofRank ? -1 : 3);
    EXPECT_EQ(identity.size, ofSize ? -1 : 4);
    EXPECT_EQ(find(with(wrong, key)).id, far);
    const UniqueId given = encode(randomRendezvous());
    EXPECT_EQ(find(with(wrong, {{"TUTTI_UNIQUE_ID", given.toHex()}})).id, given);
  }
  EXPECT_THROW(find({{"RANK", "x"}, {"WORLD_SIZE", "1"}}), Error);
  EXPECT_THROW(find({{"TUTTI_RANK", "x"}, {"TUTTI_WORLD_SIZE", "2"}}), Error);
}

// Nothing of a value reaches a terminal but what it shows.
TEST(Discover, ControlCharactersOfValuesAreNotRepeated) {
  const std::string wild = "1\x1b[2J\n\x7f\u009b2J", tame = "1?[2J???2J";
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT"})
    expectInvalid(with(kTorch, {{name, wild}}), base::message(name, "=", tame, " is not"));
  expectInvalid({{"RANK", wild}}, "RANK=" + tame + " is set");
  expectInvalid(with(kTorch, {{"TUTTI_ADDRESS", wild}}), "TUTTI_ADDRESS=" + tame + " is not");
  expectInvalid(with(kTorch, {{"MASTER_ADDR", wild}, {"TUTTI_JOB_KEY", kKey}}), "host " + tame);
}

TEST(Discover, AWorldOfOneNeedsNoRendezvous) {
  EXPECT_EQ(find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).id, UniqueId{});
}

TEST(Discover, AnAddressMakesTheSameIdForEverybody) {
  const auto at = [](const std::string& address, const Variables& variables = {}) {
    return idAt(address, [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  const UniqueId id = at("127.0.0.1:4000");
  EXPECT_NE(at("127.0.0.1:4000", {{"TUTTI_JOB_ID", "one"}}), id);
  EXPECT_EQ(at("127.0.0.1:4000"), id);
  EXPECT_NE(at("127.0.0.1:4001"), id);
  const Rendezvous point = decode(id);
  EXPECT_EQ(point.address.family, wire::Family::Unix);
  EXPECT_TRUE(point.credentials.sameUser && point.openedByRankZero);
  const Rendezvous keyed = decode(at("127.0.0.1:4000", {{"TUTTI_JOB_KEY", kKey}}));
  EXPECT_EQ(keyed.address.describe(), "127.0.0.1:4000");
  EXPECT_FALSE(keyed.credentials.sameUser);
  EXPECT_NE(keyed.credentials.secret,
            decode(at("127.0.0.1:4000", {{"TUTTI_JOB_KEY", kKey + "x"}})).credentials.secret);
  EXPECT_EQ(decode(at("[::1]:4000", {{"TUTTI_JOB_KEY", kKey}})).address.describe(), "[::1]:4000");
  // The launcher's own store has nothing to do with it.
  EXPECT_EQ(decode(at("127.0.0.1:4000", with(kTorch, {{"TUTTI_JOB_KEY", kKey},
                                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}})))
                .address.describe(),
            "127.0.0.1:4000");
  for (const char* bad : {"", "host", ":1", "host:", "host:0", "host:65536", "host:x", "host:-1"})
    EXPECT_THROW(at(bad), Error) << bad;
  EXPECT_THROW(at("h:1", {{"TUTTI_JOB_KEY", "short"}}), Error);
}

// A batch script has SLURM_PROCID=0 and SLURM_NTASKS, and nobody has started the other ranks.
TEST(Discover, ASlurmAllocationIsNoLauncherWithoutAStep) {
  const Variables script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "8"}};
  EXPECT_EQ(find(script).source, "no launcher");
  EXPECT_EQ(find({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "8"}}).source, "no launcher");
  expectInvalid(with(script, {{"SLURM_STEP_ID", "0"}}), "TUTTI_UNIQUE_ID");
}

}  // namespace
}  // namespace tutti::bootstrap
