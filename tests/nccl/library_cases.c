/* Versions, errors, configs, memory, logging, variables. */

#include <unistd.h>

#include "harness.h"

/* Newer headers of NCCL declare it only where a system's macro is set. */
#ifdef ncclResetDebugInit
#undef ncclResetDebugInit
void ncclResetDebugInit(void);
#endif

static void versions(void) {
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK_EQ(version, 23203);
  CHECK(version >= NCCL_VERSION_CODE);
  OK(pncclGetVersion(&version));
  FAILS(ncclGetVersion(NULL), ncclInvalidArgument, "ncclGetVersion: version is null");
}

static void error_strings(void) {
  static const char* const expected[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
      "timeout",
  };
  for (int i = 0; i < ncclNumResults; ++i)
    CHECK(strcmp(ncclGetErrorString((ncclResult_t)i), expected[i]) == 0);
  CHECK(strcmp(ncclGetErrorString((ncclResult_t)9), "unknown result code") == 0);
  CHECK(strcmp(ncclGetErrorString((ncclResult_t)-1), "unknown result code") == 0);
  CHECK(strcmp(ncclGetLastError(NULL), "") == 0);
}

/* Pointers that are no communicators, and communicators that are none any more, are refused. */
static void bad_handles(void) {
  int number = 0;
  ncclResult_t error = ncclSuccess;
  long garbage[64] = {0};
  FAILS(ncclCommCount(NULL, &number), ncclInvalidArgument, "null");
  FAILS(ncclCommCount((ncclComm_t)garbage, &number), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommUserRank((ncclComm_t)garbage, &number), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommCuDevice((ncclComm_t)garbage, &number), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommGetAsyncError((ncclComm_t)garbage, &error), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommDestroy((ncclComm_t)garbage), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommAbort((ncclComm_t)garbage), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommFinalize((ncclComm_t)garbage), ncclInvalidArgument, "no communicator");
  FAILS(ncclCommRevoke((ncclComm_t)garbage, 0), ncclInvalidArgument, "no communicator");
  FAILS(ncclAllReduce(garbage, garbage, 1, ncclInt8, ncclSum, (ncclComm_t)garbage, NULL),
        ncclInvalidArgument, "no communicator");
  FAILS(ncclRedOpDestroy((ncclRedOp_t)7, (ncclComm_t)garbage), ncclInvalidArgument,
        "no communicator");
  OK(ncclCommDestroy(NULL));
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclCommDestroy(comm));
  FAILS(ncclCommDestroy(comm), ncclInvalidArgument, "destroyed");
}

static void bad_arguments_of_init(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL;
  FAILS(ncclGetUniqueId(NULL), ncclInvalidArgument, "uniqueId is null");
  FAILS(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument, "comm is null");
  FAILS(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument, "rank 0 of 0");
  FAILS(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument, "rank 2 of 2");
  FAILS(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument, "rank -1 of 2");
  FAILS(ncclCommInitRankScalable(&comm, 2, 0, 0, &id, NULL), ncclInvalidArgument, "nId is 0");
  FAILS(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, NULL), ncclInvalidArgument, "nId is 3");
  FAILS(ncclCommInitRankScalable(&comm, 2, 0, 1, NULL, NULL), ncclInvalidArgument, "null");
  memset(&id, 7, sizeof id);
  FAILS(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument, "unique id");
  CHECK(comm == NULL);
  const int twice[] = {3, 3}, negative[] = {0, -1};
  ncclComm_t two[2] = {NULL, NULL};
  FAILS(ncclCommInitAll(two, 2, twice), ncclInvalidUsage, "twice");
  FAILS(ncclCommInitAll(two, 2, negative), ncclInvalidArgument, "device -1");
  FAILS(ncclCommInitAll(two, 0, NULL), ncclInvalidArgument, "ndev is 0");
  FAILS(ncclCommInitAll(NULL, 2, NULL), ncclInvalidArgument, "null");
  CHECK(two[0] == NULL && two[1] == NULL);
}

static ncclResult_t init_with(ncclConfig_t* config) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
  CHECK((result == ncclSuccess) == (comm != NULL));
  if (comm) OK(ncclCommDestroy(comm));
  return result;
}

static void configs(void) {
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t c = fresh;
  OK(init_with(NULL));
  OK(init_with(&c));
#define SETTING(field, value, result, words) \
  do {                                       \
    c = fresh;                               \
    c.field = value;                         \
    if (result == ncclSuccess)               \
      OK(init_with(&c));                     \
    else                                     \
      FAILS(init_with(&c), result, words);   \
  } while (0)
  SETTING(magic, 1, ncclInvalidArgument, "magic");
  SETTING(size, 8, ncclInvalidArgument, "size 8");
  SETTING(blocking, 1, ncclSuccess, "");
  SETTING(blocking, 2, ncclInvalidArgument, "blocking is 2");
  SETTING(blocking, -1, ncclInvalidArgument, "blocking is -1");
  SETTING(cgaClusterSize, 4, ncclSuccess, "");
  SETTING(cgaClusterSize, -1, ncclInvalidArgument, "cgaClusterSize is -1");
  SETTING(minCTAs, 0, ncclInvalidArgument, "minCTAs is 0");
  SETTING(maxCTAs, -5, ncclInvalidArgument, "maxCTAs is -5");
  SETTING(netName, "Socket", ncclSuccess, "");
  SETTING(splitShare, 2, ncclInvalidArgument, "splitShare is 2");
  SETTING(trafficClass, 77, ncclSuccess, "");
  SETTING(commName, "mine", ncclSuccess, "");
  SETTING(collnetEnable, 3, ncclInvalidArgument, "collnetEnable is 3");
  SETTING(CTAPolicy, NCCL_CTA_POLICY_ZERO, ncclSuccess, "");
  SETTING(CTAPolicy, 4, ncclInvalidArgument, "CTAPolicy is 4");
  SETTING(shrinkShare, -2, ncclInvalidArgument, "shrinkShare is -2");
  SETTING(nvlsCTAs, 0, ncclInvalidArgument, "nvlsCTAs is 0");
  SETTING(nChannelsPerNetPeer, 65, ncclInvalidArgument, "nChannelsPerNetPeer is 65");
  SETTING(nvlinkCentricSched, 2, ncclInvalidArgument, "nvlinkCentricSched is 2");
#undef SETTING
  c = fresh;
  c.minCTAs = 9;
  c.maxCTAs = 8;
  FAILS(init_with(&c), ncclInvalidArgument, "minCTAs");
}

/* A program that was compiled with another version has a struct of another size. What lies behind
 * its end, and in fields that its version did not have, means nothing. */
static void configs_of_other_versions(void) {
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t c = fresh;
  c.version = 21805; /* 2.18: 48 bytes, the last four of which are padding */
  c.size = 48;
  c.trafficClass = -77;
  c.collnetEnable = 99;
  c.nvlsCTAs = -99;
  c.commName = (const char*)1;
  OK(init_with(&c));
  c.version = 21403; /* 2.14 ends after blocking */
  c.size = 24;
  c.minCTAs = -1;
  c.splitShare = 99;
  OK(init_with(&c));
  c.blocking = 7;
  FAILS(init_with(&c), ncclInvalidArgument, "blocking is 7");
  c = fresh;
  c.version = 22705; /* 2.27: in 2.28's size, but without its fields */
  c.nChannelsPerNetPeer = 1000;
  OK(init_with(&c));
  c = fresh;
  c.version = 22605; /* 2.26, the same */
  c.collnetEnable = c.CTAPolicy = c.shrinkShare = c.nvlsCTAs = 1000;
  c.commName = (const char*)1;
  OK(init_with(&c));
  c = fresh;
  c.version = 21602;
  c.cgaClusterSize = c.minCTAs = c.maxCTAs = c.splitShare = -9;
  c.netName = (const char*)1;
  OK(init_with(&c));
  c.version = 21704; /* 2.17 has three of them */
  FAILS(init_with(&c), ncclInvalidArgument, "cgaClusterSize is -9");
  c.cgaClusterSize = c.minCTAs = c.maxCTAs = 1;
  OK(init_with(&c));
#if NCCL_VERSION_CODE >= 23203 /* what lies behind an older struct are fields that are known */
  struct {
    ncclConfig_t known;
    int later[8];
  } newer = {NCCL_CONFIG_INITIALIZER, {-5, -5, -5, -5, -5, -5, -5, -5}};
  newer.known.size = sizeof newer;
  newer.known.version = 29901;
  OK(init_with(&newer.known));
#endif
}

static void memory(void) {
  char* block = NULL;
  OK(ncclMemAlloc((void**)&block, 100000));
  CHECK_EQ((size_t)block % NCCL_WIN_REQUIRED_ALIGNMENT, 0);
  memset(block, 1, 100000);
  FAILS(ncclMemFree(block + 1), ncclInvalidArgument, "not allocated");
  OK(ncclMemFree(block));
  FAILS(ncclMemFree(block), ncclInvalidArgument, "freed before");
  OK(ncclMemFree(NULL));
  block = (char*)1;
  OK(ncclMemAlloc((void**)&block, 0));
  CHECK(block == NULL);
  FAILS(ncclMemAlloc(NULL, 1), ncclInvalidArgument, "null");
  FAILS(ncclMemAlloc((void**)&block, (size_t)1 << 60), ncclSystemError, "bytes");
}

/* The lines between the beginning of a file and its end, or dies. */
static const char* read_file(const char* path) {
  static char text[65536];
  FILE* file = fopen(path, "r");
  CHECK(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void debug_lines(void) {
  char folder[] = "/tmp/tutti-nccl-XXXXXX", pattern[96], path[512], host[256] = "", words[600];
  CHECK(mkdtemp(folder));
  snprintf(pattern, sizeof pattern, "%s/%%h.%%p.%%%%", folder);
  setenv("NCCL_DEBUG", "info", 1);
  setenv("NCCL_DEBUG_FILE", pattern, 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,COLL,ENV", 1);
  setenv("NCCL_IB_HCA", "mlx5", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
  unsetenv("UCX_TLS");
  setenv("NCCL_ALGO", "NVLS", 1);
  setenv("NCCL_CUMEM_ENABLE", "2", 1);
  setenv("NCCL_MAX_CTAS", "none", 1);
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  float x = 1, y = 0;
  OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL));
  OK(ncclGroupStart());
  OK(ncclSend(&x, 1, ncclFloat, 0, comm, NULL));
  OK(ncclRecv(&y, 1, ncclFloat, 0, comm, NULL));
  OK(ncclGroupEnd());
  CHECK_EQ(ncclCommCount(comm, NULL), ncclInvalidArgument);
  OK(ncclCommDestroy(comm));
  gethostname(host, sizeof host - 1);
  host[strcspn(host, ".")] = '\0';
  snprintf(path, sizeof path, "%s/%s.%d.%%", folder, host, (int)getpid());
  const char* text = read_file(path);
  CHECK(strstr(text, "NCCL version 2.32.3+tutti"));
  snprintf(words, sizeof words, "%s:%d:%d [0] NCCL INFO ncclCommInitAll comm 0x", host,
           (int)getpid(), (int)getpid());
  CHECK(strstr(text, words));
  CHECK(strstr(text, " rank 0 nranks 1 cudaDev 0 - Init COMPLETE\n"));
  CHECK(strstr(text, "NCCL INFO AllReduce: "));
  CHECK(strstr(text, "NCCL INFO NCCL_DEBUG set by environment to info\n"));
  CHECK(!strstr(text, "NCCL INFO Send: ")); /* P2P was not asked for */
  CHECK(strstr(text, "NCCL WARN ncclCommCount: count is null\n"));
  CHECK(strstr(text, "NCCL INFO NCCL_IB_DISABLE set by environment to 1\n"));
  CHECK(getenv("UCX_TLS") && strcmp(getenv("UCX_TLS"), "^ib") == 0);
  const char* ignored = strstr(text, "NCCL WARN variables without a meaning here, ignored: ");
  CHECK(ignored && strstr(ignored, "NCCL_ALGO NCCL_CUMEM_ENABLE NCCL_IB_HCA NCCL_MAX_CTAS"));
  CHECK(!strstr(ignored + 20, "variables without a meaning")); /* once */
  unlink(path);
  rmdir(folder);
}

/* Who sets what has no meaning here is told, also without NCCL's lines. */
static void ignored_variables(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  setenv("NCCL_IB_HCA", "mlx5", 1);
  setenv("NCCL_DEBUG", "WARNING", 1);
  unsetenv("TUTTI_LOG");
  CHECK_EQ(dup2(file, 2), 2);
  ncclComm_t comm = NULL;
  for (int i = 0; i < 2; ++i) {
    OK(ncclCommInitAll(&comm, 1, NULL));
    OK(ncclCommDestroy(comm));
  }
  const char* text = read_file(path);
  const char* named =
      strstr(text, "variables without a meaning here, ignored: NCCL_DEBUG NCCL_IB_HCA");
  CHECK(named && !strstr(named + 20, "without a meaning")); /* once */
  unlink(path);
}

static void debug_file_that_cannot_be(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  setenv("NCCL_DEBUG", "WARN", 1);
  setenv("NCCL_DEBUG_FILE", "/nowhere/lines", 1);
  fflush(stdout);
  CHECK_EQ(dup2(file, 1), 1);
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclCommDestroy(comm));
  CHECK(strstr(read_file(path), "NCCL WARN NCCL_DEBUG_FILE: /nowhere/lines: No such file"));
  unlink(path);
}

/* Nothing is written unless it is asked for; what was asked for can be asked again. */
static void debug_silence(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX";
  CHECK(mkstemp(path) >= 0);
  setenv("NCCL_DEBUG_FILE", path, 1);
  unsetenv("NCCL_DEBUG");
  CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
  CHECK_EQ(strlen(read_file(path)), 0);
  setenv("NCCL_DEBUG", "WARN", 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ncclResetDebugInit();
#pragma GCC diagnostic pop
  CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
  CHECK(strstr(read_file(path), "NCCL WARN ncclGetVersion: version is null\n"));
  unlink(path);
}

static void debug_excluded(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX";
  CHECK(mkstemp(path) >= 0);
  setenv("NCCL_DEBUG_FILE", path, 1);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "^INIT,coll", 1);
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  float x = 1;
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL));
  OK(ncclGroupStart());
  OK(ncclSend(&x, 0, ncclFloat, 0, comm, NULL));
  OK(ncclRecv(&x, 0, ncclFloat, 0, comm, NULL));
  OK(ncclGroupEnd());
  const char* text = read_file(path);
  CHECK(strstr(text, "NCCL INFO Send: "));
  CHECK(!strstr(text, "AllReduce: ") && !strstr(text, "Init COMPLETE"));
  unlink(path);
}

static void reduce_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  float x = 1, y = 0;
  OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL));
  CHECK_EQ(y, rank->size);
  OK(ncclCommDestroy(comm));
}

static void reduce_twice(const Rank* rank) {
  (void)rank;
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comm = NULL;
    float x = 1;
    OK(ncclCommInitAll(&comm, 1, NULL));
    OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL));
    OK(ncclCommDestroy(comm));
  }
}

/* Words that are no subsystem of NCCL's are named once, and the list is read without them. */
static void debug_subsystems_that_are_none(void) {
  static const struct {
    const char *list, *named;
    int init, coll; /* whether it has their lines */
  } cases[] = {
      {"FOO", ": FOO\n", 1, 0},
      {"FOO,coll,,BARS", ": FOO BARS\n", 0, 1},
      {"^FOO", ": FOO\n", 1, 1},
      {"^init,ALLOT", ": ALLOT\n", 0, 1},
      {"INIT,NET,RAS,all", NULL, 1, 1},
      {"NET", NULL, 0, 0},
      {"", NULL, 1, 0},
  };
  setenv("NCCL_DEBUG", "INFO", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char path[] = "/tmp/tutti-nccl-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    setenv("NCCL_DEBUG_FILE", path, 1);
    setenv("NCCL_DEBUG_SUBSYS", cases[i].list, 1);
    run_processes(1, reduce_twice, -1);
    const char* text = read_file(path);
    unlink(path);
    const char* named = strstr(text, "words that are no subsystem of NCCL's, ignored: ");
    CHECK(!named == !cases[i].named);
    if (named) {
      CHECK(strstr(named, cases[i].named));
      CHECK(!strstr(named + 20, "words that are no subsystem")); /* once */
    }
    CHECK_EQ(strstr(text, "Init COMPLETE") != NULL, cases[i].init);
    CHECK_EQ(strstr(text, "AllReduce: ") != NULL, cases[i].coll);
  }
}

/* Whether ranks that are started now say these words about what is chosen. */
static int chosen_with(const char* words) {
  char path[] = "/tmp/tutti-nccl-XXXXXX";
  const int file = mkstemp(path), errors = dup(STDERR_FILENO);
  CHECK(file >= 0 && errors >= 0);
  CHECK(dup2(file, STDERR_FILENO) >= 0);
  run_processes(2, reduce_of_rank, -1);
  CHECK(dup2(errors, STDERR_FILENO) >= 0);
  close(file);
  close(errors);
  const char* text = read_file(path);
  unlink(path);
  CHECK(strstr(text, ": for blocks of up to "));
  return strstr(text, words) != NULL;
}

static void algorithm_by_variable(void) {
  setenv("TUTTI_LOG", "debug", 1);
  CHECK(!chosen_with("as asked"));
  setenv("NCCL_ALGO", "Tree", 1);
  CHECK(chosen_with(": double_tree, as asked"));
  setenv("NCCL_ALGO", "ring", 1);
  CHECK(chosen_with(": ring, as asked"));
  setenv("NCCL_ALGO", "Ring,Tree", 1);
  CHECK(!chosen_with("as asked"));
  setenv("NCCL_ALGO", "Tree", 1);
  setenv("TUTTI_ALGORITHM", "one_shot", 1);
  CHECK(chosen_with(": one_shot, as asked"));
}

const Case library_cases[] = {
    {"library/versions", versions},
    {"library/error_strings", error_strings},
    {"library/bad_handles", bad_handles},
    {"library/bad_arguments_of_init", bad_arguments_of_init},
    {"library/configs", configs},
    {"library/configs_of_other_versions", configs_of_other_versions},
    {"library/memory", memory},
    {"library/debug_lines", debug_lines},
    {"library/debug_silence", debug_silence},
    {"library/ignored_variables", ignored_variables},
    {"library/debug_file_that_cannot_be", debug_file_that_cannot_be},
    {"library/debug_excluded", debug_excluded},
    {"library/debug_subsystems_that_are_none", debug_subsystems_that_are_none},
    {"library/algorithm_by_variable", algorithm_by_variable},
    {NULL, NULL},
};
