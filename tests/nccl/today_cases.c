/* What NCCL has from 2.29 on: settings of calls, properties, settings of the process, encryption,
 * results of calls that take too long. With an older header there is nothing to test. */

#include "harness.h"

#if NCCL_VERSION_CODE >= 23203
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include <nccl_device.h>

static void params(void) {
  setenv("TUTTI_TIMEOUT_MS", "70000", 1);
  setenv("TUTTI_LOG", "warning", 1);
  ncclParamHandle_t timeout = NULL, log_level = NULL, debug = NULL;
  OK(ncclParamBind(&timeout, "TUTTI_TIMEOUT_MS"));
  OK(pncclParamBind(&log_level, "TUTTI_LOG"));
  OK(ncclParamBind(&debug, "NCCL_DEBUG"));
  int8_t i8 = 0;
  int16_t i16 = 0;
  int32_t i32 = 0;
  int64_t i64 = 0;
  uint8_t u8 = 0;
  uint16_t u16 = 0;
  uint32_t u32 = 0;
  uint64_t u64 = 0;
  FAILS(ncclParamGetI8(timeout, &i8), ncclInvalidArgument, "not a whole number of 8 bits");
  FAILS(ncclParamGetI16(timeout, &i16), ncclInvalidArgument, "TUTTI_TIMEOUT_MS is \"70000\"");
  OK(ncclParamGetI32(timeout, &i32));
  OK(ncclParamGetI64(timeout, &i64));
  FAILS(ncclParamGetU8(timeout, &u8), ncclInvalidArgument, "8 bits");
  FAILS(ncclParamGetU16(timeout, &u16), ncclInvalidArgument, "16 bits");
  OK(ncclParamGetU32(timeout, &u32));
  OK(ncclParamGetU64(timeout, &u64));
  CHECK(i32 == 70000 && i64 == 70000 && u32 == 70000 && u64 == 70000);
  FAILS(ncclParamGetI32(log_level, &i32), ncclInvalidArgument, "\"warning\"");

  const char* text = NULL;
  OK(ncclParamGetStr(log_level, &text));
  CHECK(strcmp(text, "warning") == 0);
  OK(ncclParamGetStr(debug, &text));
  CHECK(strcmp(text, "") == 0);
  char bytes[8] = "xxxxxxx";
  int length = 0;
  OK(ncclParamGet(log_level, bytes, 7, &length));
  CHECK(length == 7 && memcmp(bytes, "warning", 7) == 0);
  FAILS(ncclParamGet(log_level, bytes, 6, &length), ncclInvalidArgument, "maxLen is 6");
  FAILS(ncclParamGet(log_level, bytes, -1, &length), ncclInvalidArgument, "maxLen is -1");
  OK(ncclParamGetParameter("TUTTI_TIMEOUT_MS", &text, &length));
  CHECK(strcmp(text, "70000") == 0 && length == 5);
  /* A default. */
  OK(ncclParamGetParameter("TUTTI_RECONNECT_MS", &text, &length));
  CHECK(strcmp(text, "2000") == 0);

  const char** names = NULL;
  int count = 0;
  OK(ncclParamGetAllParameterKeys(&names, &count));
  int found = 0;
  for (int i = 0; i < count; ++i) {
    OK(ncclParamGetParameter(names[i], &text, &length));
    found += strcmp(names[i], "NCCL_DEBUG") == 0 || strcmp(names[i], "TUTTI_ALGORITHM") == 0;
    for (int other = 0; other < i; ++other) CHECK(strcmp(names[i], names[other]) != 0);
  }
  CHECK_EQ(found, 2);
  CHECK(count > 20);

  FAILS(ncclParamBind(&timeout, "NCCL_NOTHING"), ncclInvalidArgument, "no setting NCCL_NOTHING");
  FAILS(ncclParamBind(&timeout, NULL), ncclInvalidArgument, "key is null");
  FAILS(ncclParamBind(NULL, "NCCL_DEBUG"), ncclInvalidArgument, "out is null");
  FAILS(ncclParamGetStr((ncclParamHandle_t)&count, &text), ncclInvalidArgument, "no handle");
  FAILS(ncclParamGetStr(NULL, &text), ncclInvalidArgument, "no handle");
}

static void params_in_the_log(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX", text[65536] = "";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_FILE", path, 1);
  setenv("TUTTI_TIMEOUT_MS", "70001", 1);
  ncclParamDumpAll();
  CHECK(read(file, text, sizeof text - 1) > 0);
  HAS(text, "NCCL INFO TUTTI_TIMEOUT_MS=70001\n");
  HAS(text, "NCCL INFO NCCL_DEBUG=INFO\n");
  unlink(path);
}

static void properties(void) {
  ncclComm_t comms[3], others[2], children[3];
  OK(ncclCommInitAll(comms, 3, NULL));
  OK(ncclCommInitAll(others, 2, NULL));
  uint64_t hash = 0;
  for (int r = 0; r < 3; ++r) {
    ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
    OK(ncclCommQueryProperties(comms[r], &p));
    CHECK_EQ(p.size, sizeof p);
    CHECK_EQ(p.version, NCCL_VERSION_CODE);
    CHECK(p.rank == r && p.nRanks == 3 && p.cudaDev == r && p.hostRmaSupport);
    CHECK(!p.deviceApiSupport && !p.multimemSupport && p.ginType == NCCL_GIN_TYPE_NONE);
    CHECK_EQ(p.nLsaTeams * ncclTeamLsa(comms[r]).nRanks, 3);
    for (int i = 0; i < 64; ++i) CHECK(!p.ginSupport[i]);
    CHECK(p.commHash != 0 && (r == 0 || p.commHash == hash));
    hash = p.commHash;
  }
  ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
  OK(ncclCommQueryProperties(others[0], &p));
  CHECK(p.commHash != hash);
  OK(ncclGroupStart());
  for (int r = 0; r < 3; ++r) OK(ncclCommSplit(comms[r], r == 0 ? 0 : -1, 0, &children[r], NULL));
  OK(ncclGroupEnd());
  OK(ncclCommQueryProperties(children[0], &p));
  CHECK(p.commHash != hash && p.nRanks == 1);
  OK(ncclCommDestroy(children[0]));

  /* As much as the caller's version has. */
  struct {
    ncclCommProperties_t known;
    char later[16];
  } newer = {NCCL_COMM_PROPERTIES_INITIALIZER, "later"};
  newer.known.size = sizeof newer;
  OK(ncclCommQueryProperties(comms[1], &newer.known));
  CHECK(newer.known.commHash == hash && strcmp(newer.later, "later") == 0);
  memset(&p, 0x55, sizeof p);
  p.size = offsetof(ncclCommProperties_t, commHash);
  p.magic = NCCL_API_MAGIC;
  p.version = 22907;
  OK(ncclCommQueryProperties(comms[2], &p));
  CHECK(p.rank == 2 && p.hostRmaSupport && p.commHash == 0x5555555555555555);
  memset(&p, 0x55, sizeof p);
  p.size = 40; /* 2.29.3: ginType was a byte there */
  p.magic = NCCL_API_MAGIC;
  p.version = 22903;
  OK(ncclCommQueryProperties(comms[2], &p));
  CHECK(p.rank == 2 && !p.multimemSupport && (int)p.ginType == 0);
  CHECK(*((unsigned char*)&p + 40) == 0x55);

  p.magic = 1;
  FAILS(ncclCommQueryProperties(comms[0], &p), ncclInvalidUsage,
        "NCCL_COMM_PROPERTIES_INITIALIZER");
  p.magic = NCCL_API_MAGIC;
  p.size = 8;
  FAILS(ncclCommQueryProperties(comms[0], &p), ncclInvalidUsage,
        "NCCL_COMM_PROPERTIES_INITIALIZER");
  FAILS(ncclCommQueryProperties(comms[0], NULL), ncclInvalidArgument, "props is null");
  for (int r = 0; r < 3; ++r) OK(ncclCommDestroy(comms[r]));
  for (int r = 0; r < 2; ++r) OK(ncclCommDestroy(others[r]));
}

/* Every collective with settings of its own, on host memory. */
static void configured_calls_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
  c.maxCTAs = 3;
  c.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  c.userProfilerTag = 7;
  enum { kSize = 3 };
  const ncclCollConfig_t* const configs[] = {NULL, &c};
  for (int i = 0; i < 2; ++i) {
    const ncclCollConfig_t* const with = configs[i];
    const float one = (float)(rank->rank + 1);
    const float power = rank->rank == 0 ? 1 : rank->rank == 1 ? 10 : 100;
    float in[kSize] = {one, 10 * one, 100 * one}, out[kSize] = {0};
    OK(ncclAllReduceConfig(in, out, kSize, ncclFloat, ncclSum, comm, NULL, with));
    CHECK(out[0] == 6 && out[1] == 60 && out[2] == 600);
    OK(ncclReduceConfig(in, out, kSize, ncclFloat, ncclMax, 1, comm, NULL, with));
    CHECK(rank->rank != 1 || (out[0] == 3 && out[2] == 300));
    OK(ncclBroadcastConfig(in, out, kSize, ncclFloat, 2, comm, NULL, with));
    CHECK(out[0] == 3 && out[1] == 30 && out[2] == 300);
    OK(ncclAllGatherConfig(in, out, 1, ncclFloat, comm, NULL, with));
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 3);
    OK(ncclReduceScatterConfig(in, out, 1, ncclFloat, ncclSum, comm, NULL, with));
    CHECK(out[0] == 6 * power);
    OK(ncclAlltoAllConfig(in, out, 1, ncclFloat, comm, NULL, with));
    CHECK(out[1] == 2 * power);
    OK(ncclGatherConfig(in, out, 1, ncclFloat, 0, comm, NULL, with));
    CHECK(rank->rank != 0 || (out[0] == 1 && out[1] == 2 && out[2] == 3));
    OK(ncclScatterConfig(in, out, 1, ncclFloat, 0, comm, NULL, with));
    CHECK(out[0] == power);
  }
  OK(ncclCommDestroy(comm));
}
static void configured_calls(void) { run_processes(3, configured_calls_of_rank, -1); }

/* Which algorithm a call gets is said at debug level. */
static void algorithms_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
  float x[64] = {1};
  c.algSelection = "RING";
  OK(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c));
  c.algSelection = "Tree";
  OK(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c));
  OK(ncclGroupStart());
  OK(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c));
  OK(ncclGroupEnd());
  FAILS(ncclAlltoAllConfig(x, x, 16, ncclFloat, comm, NULL, &c), ncclInvalidArgument,
        "double_tree does not exist for alltoall on 2 ranks");
  c.forceAlgSelection = 0;
  OK(ncclAlltoAllConfig(x, x, 16, ncclFloat, comm, NULL, &c));
  c.forceAlgSelection = 1;
  c.algSelection = "NVLS";
  FAILS(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c), ncclInvalidArgument,
        "algSelection is NVLS: there are ring and tree");
  c.algSelection = "";
  OK(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c));
  OK(ncclCommDestroy(comm));
}
static void algorithms(void) {
  char path[] = "/tmp/tutti-nccl-XXXXXX", text[65536] = "";
  const int file = mkstemp(path), errors = dup(STDERR_FILENO);
  CHECK(file >= 0 && errors >= 0);
  setenv("TUTTI_LOG", "debug", 1);
  CHECK(dup2(file, STDERR_FILENO) >= 0);
  run_processes(2, algorithms_of_rank, -1);
  CHECK(dup2(errors, STDERR_FILENO) >= 0);
  CHECK(pread(file, text, sizeof text - 1, 0) > 0);
  unlink(path);
  HAS(text, ": ring, as asked");
  HAS(text, ": double_tree, as asked");
}

/* Ranks that ask for different algorithms hear of each other. */
static void other_algorithms_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
  c.algSelection = rank->rank == 0 ? "ring" : "tree";
  float x[64] = {1};
  FAILS(ncclAllReduceConfig(x, x, 64, ncclFloat, ncclSum, comm, NULL, &c), ncclInvalidUsage,
        "ranks disagree");
  OK(ncclCommAbort(comm));
}
static void other_algorithms(void) { run_processes(2, other_algorithms_of_rank, -1); }

static void bad_configs_of_calls(void) {
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  const ncclCollConfig_t fresh = NCCL_COLLCONFIG_INITIALIZER;
  ncclCollConfig_t c = fresh;
  float x = 1;
#define REFUSED(field, value, words)                                                               \
  do {                                                                                             \
    c = fresh;                                                                                     \
    c.field = value;                                                                               \
    FAILS(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &c), ncclInvalidArgument, \
          words);                                                                                  \
  } while (0)
  REFUSED(magic, 1, "NCCL_COLLCONFIG_INITIALIZER");
  REFUSED(size, 8, "size 8");
  REFUSED(minCTAs, 0, "minCTAs is 0");
  REFUSED(maxCTAs, -1, "maxCTAs is -1");
  REFUSED(nvlsCTAs, 0, "nvlsCTAs is 0");
  REFUSED(cgaClusterSize, -1, "cgaClusterSize is -1");
  REFUSED(forceAlgSelection, 2, "forceAlgSelection is 2");
  REFUSED(CTAPolicy, 4, "CTAPolicy is 4");
  REFUSED(maxCTAs, 100000, "gpuBlocks is 100000");
  REFUSED(launchCompletionEvent, (cudaEvent_t)8, "launchCompletionEvent, which a call on host");
#undef REFUSED
  c = fresh;
  c.version = 23102; /* before launchCompletionEvent */
  c.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
  c.launchCompletionEvent = (cudaEvent_t)8;
  OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &c));
  /* Another library's options change nothing. */
  ncclConfigExt_t other = {NULL, {77, 1}, {.i = 5}};
  c = fresh;
  c.ext = &other;
  OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, NULL, &c));
  OK(ncclCommDestroy(comm));
}

/* Fields of ncclConfig_t that 2.29 and later have. */
static ncclResult_t make_with(const ncclConfig_t* given) {
  ncclConfig_t config = *given;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result == ncclSuccess) OK(ncclCommDestroy(comm));
  return result;
}
static void configs_of_today(void) {
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t c = fresh;
#define SETTING(field, good, bad)                                  \
  do {                                                             \
    c = fresh;                                                     \
    c.field = good;                                                \
    OK(make_with(&c));                                             \
    c.field = bad;                                                 \
    FAILS(make_with(&c), ncclInvalidArgument, #field " is " #bad); \
  } while (0)
  SETTING(graphUsageMode, 2, 3);
  SETTING(numRmaCtx, 4, -1);
  SETTING(maxP2pPeers, 1, 0);
  SETTING(graphStreamOrdering, 0, 2);
  SETTING(launchOrderImplicit, 1, 2);
  SETTING(numRmaSig, 0, -1);
  SETTING(rmaEagerInit, 1, 2);
  SETTING(hostCftMode, ncclHostCftFallback, 4);
  SETTING(nvlsHostMode, INT_MAX, 4);
#undef SETTING
  /* Each from its version on; before, anything may lie there. */
  c = fresh;
  c.version = 23102;
  c.nvlsHostMode = 77;
  OK(make_with(&c));
  c.version = 23007; /* 96 bytes, as 2.30.3 */
  c.size = 96;
  c.launchOrderImplicit = c.numRmaSig = c.rmaEagerInit = c.hostCftMode = 77;
  OK(make_with(&c));
  c.graphStreamOrdering = 77;
  FAILS(make_with(&c), ncclInvalidArgument, "graphStreamOrdering is 77");
  c.version = 23003;
  OK(make_with(&c));
  c.version = 22907;
  c.maxP2pPeers = -77;
  OK(make_with(&c));
  c.version = 22809;
  c.graphUsageMode = c.numRmaCtx = -77;
  OK(make_with(&c));
}

/* A call that is too late is ncclTimeout for programs that know it. */
static void late_of_rank(const Rank* rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (rank->shared->flags[5] != 0) config.version = 22809;
  ncclComm_t comm = NULL;
  OK(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config));
  float x = 1;
  if (rank->rank == 0) {
    FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL),
          rank->shared->flags[5] != 0 ? ncclRemoteError : ncclTimeout, "within 300 ms");
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, rank->shared->flags[5] != 0 ? ncclRemoteError : ncclTimeout);
  }
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, 2);
  OK(ncclCommAbort(comm));
}
static void late(void) {
  setenv("TUTTI_TIMEOUT_MS", "300", 1);
  CHECK(strcmp(ncclGetErrorString(ncclTimeout), "timeout") == 0);
  run_processes(2, late_of_rank, -1);
}
static void late_old_of_rank(const Rank* rank) {
  rank->shared->flags[5] = 1;
  late_of_rank(rank);
}
static void late_old(void) {
  setenv("TUTTI_TIMEOUT_MS", "300", 1);
  run_processes(2, late_old_of_rank, -1);
}

/* Sealed connections are of transport tcp, which ranks of one host take where they are told to. */
static void encrypted_of_rank(const Rank* rank) {
  ncclEncryptionConfig_t e = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  e.mode = NCCL_ENCRYPTION_MODE_PSK;
  e.psk = "a secret of all";
  OK(ncclSetEncryption(&e));
  ncclComm_t comm = join(rank);
  float x = 1;
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL));
  CHECK_EQ(x, rank->size);
  OK(ncclCommDestroy(comm));
  e.mode = NCCL_ENCRYPTION_MODE_NONE;
  OK(ncclSetEncryption(&e));
}
static void encrypted(void) {
  setenv("TUTTI_TRANSPORT", "tcp", 1);
  run_processes(2, encrypted_of_rank, -1);
}

/* Ranks with different secrets, or with and without, hear of it. */
static void other_secret_of_rank(const Rank* rank) {
  ncclEncryptionConfig_t e = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  e.mode = NCCL_ENCRYPTION_MODE_PSK;
  e.psk = rank->rank == 0 ? "one" : "another";
  OK(ncclSetEncryption(&e));
  ncclComm_t comm = NULL;
  const ncclResult_t result = ncclCommInitRank(&comm, rank->size, rank->id, rank->rank);
  CHECK(result == ncclInvalidUsage || result == ncclRemoteError);
  HAS(ncclGetLastError(NULL), "pre-shared key");
}
static void other_secret(void) {
  setenv("TUTTI_TRANSPORT", "tcp", 1);
  run_processes(2, other_secret_of_rank, -1);
}

static void bad_encryption(void) {
  ncclEncryptionConfig_t e = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  FAILS(ncclSetEncryption(NULL), ncclInvalidArgument, "config is null");
  e.mode = 2;
  FAILS(ncclSetEncryption(&e), ncclInvalidArgument, "mode is 2");
  e.mode = NCCL_ENCRYPTION_MODE_PSK;
  FAILS(ncclSetEncryption(&e), ncclInvalidArgument, "psk is null");
  e.psk = "";
  FAILS(ncclSetEncryption(&e), ncclInvalidArgument, "psk is empty");
  e.magic = 0;
  FAILS(ncclSetEncryption(&e), ncclInvalidArgument, "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
}

static uint64_t stat_of(ncclComm_t comm, ncclCommMemStat_t stat) {
  uint64_t value = 77;
  OK(ncclCommMemStats(comm, stat, &value));
  return value;
}

/* Kilobytes of shared memory that this process's own segments have, as the kernel counts them. */
static long shared_kilobytes(void) {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  CHECK(file);
  char line[256];
  long kilobytes = -1, n = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Pss_Shmem: %ld", &n) == 1) kilobytes = n;
  fclose(file);
  CHECK(kilobytes >= 0);
  return kilobytes;
}

static void suspended_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  enum { kLong = 1 << 18 };
  static float x[kLong];
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < kLong; ++i) x[i] = (float)(rank->rank + 1);
    OK(ncclAllReduce(x, x, kLong, ncclFloat, ncclSum, comm, NULL));
    CHECK(x[0] == 6 && x[kLong - 1] == 6);
    const uint64_t bytes = stat_of(comm, ncclStatGpuMemTotal);
    const long before = shared_kilobytes();
    CHECK(bytes >= 1 << 16);
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspend), bytes);
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 0);
    CHECK_EQ(stat_of(comm, ncclStatGpuMemPersist), 0);
    OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    raise_flag(rank->shared, turn);
    await_flag(rank->shared, turn,
               rank->size); /* the others have let go of this rank's slots, too */
    CHECK_EQ(stat_of(comm, ncclStatGpuMemTotal), 0);
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspend), bytes);
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 1);
    CHECK(shared_kilobytes() < before / 2);
    int count = 0, number = -1;
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &number));
    CHECK(count == rank->size && number == rank->rank);
    ncclResult_t state = ncclInternalError;
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclSuccess);
    FAILS(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage,
          "is suspended: ncclCommResume()");
    FAILS(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage, "is suspended");
    OK(ncclCommResume(comm));
    FAILS(ncclCommResume(comm), ncclInvalidUsage, "is not suspended");
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 0);
  }
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  OK(ncclCommDestroy(comm));
}
static void suspended(void) { run_processes(3, suspended_of_rank, -1); }

/* One thread with all ranks resumes them in a group; a group that is spoiled leaves them suspended.
 */
static void suspended_in_a_group(void) {
  ncclComm_t comms[3];
  float x[3] = {1, 2, 3};
  OK(ncclCommInitAll(comms, 3, NULL));
  FAILS(ncclCommSuspend(comms[0], 0), ncclInvalidArgument, "flags is 0");
  FAILS(ncclCommResume(comms[0]), ncclInvalidUsage, "is not suspended");
  FAILS(ncclCommMemStats(comms[0], (ncclCommMemStat_t)4, &(uint64_t){0}), ncclInvalidArgument,
        "stat is 4");
  FAILS(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, NULL), ncclInvalidArgument, "null");
  for (int r = 0; r < 3; ++r) OK(ncclCommSuspend(comms[r], NCCL_SUSPEND_MEM));
  OK(ncclGroupStart());
  for (int r = 0; r < 3; ++r) OK(ncclCommResume(comms[r]));
  FAILS(ncclCommResume(NULL), ncclInvalidArgument, "null");
  CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
  for (int r = 0; r < 3; ++r) CHECK_EQ(stat_of(comms[r], ncclStatGpuMemSuspended), 1);
  OK(ncclGroupStart());
  for (int r = 0; r < 3; ++r) OK(ncclCommResume(comms[r]));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int r = 0; r < 3; ++r)
    OK(ncclAllReduce(&x[r], &x[r], 1, ncclFloat, ncclSum, comms[r], NULL));
  OK(ncclGroupEnd());
  for (int r = 0; r < 3; ++r) {
    CHECK_EQ(x[r], 6);
    OK(ncclCommDestroy(comms[r]));
  }
}

static void suspended_nonblocking_of_rank(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  OK(settle(comm));
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  OK(ncclCommResume(comm)); /* also without blocking: PyTorch wants that */
  float x = 1;
  CHECK_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclInProgress);
  OK(settle(comm));
  CHECK_EQ(x, rank->size);
  OK(ncclCommDestroy(comm));
}
static void suspended_nonblocking(void) { run_processes(2, suspended_nonblocking_of_rank, -1); }

/* A rank that dies while all are suspended is named by those that resume. */
static void dies_suspended_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  if (rank->rank == 1) kill(getpid(), SIGKILL);
  FAILS(ncclCommResume(comm), ncclRemoteError, "rank 1");
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK_EQ(state, ncclRemoteError);
  OK(ncclCommAbort(comm));
}
static void dies_suspended(void) { run_processes(3, dies_suspended_of_rank, 1); }

/* One that never resumes is named at the deadline of set-up. */
static void never_resumes_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  if (rank->rank == 0) {
    CHECK(ncclCommResume(comm) != ncclSuccess);
    HAS(ncclGetLastError(NULL), "set-up timed out while waiting for the address of rank 1");
  }
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  OK(ncclCommAbort(comm));
}
static void never_resumes(void) {
  setenv("TUTTI_SETUP_TIMEOUT_MS", "1500", 1);
  run_processes(2, never_resumes_of_rank, -1);
}

/* An abort may come while a communicator is being suspended or resumed. */
static pthread_t other;
static ncclComm_t pair[2];
static void* abort_at_once(void* comm) {
  OK(ncclCommAbort(comm));
  return NULL;
}
static void aborted_while_suspended(void) {
  for (int turn = 0; turn < 100; ++turn) {
    OK(ncclCommInitAll(pair, 2, NULL));
    CHECK_EQ(pthread_create(&other, NULL, abort_at_once, pair[0]), 0);
    const ncclResult_t result = ncclCommSuspend(pair[0], NCCL_SUSPEND_MEM);
    CHECK(result == ncclSuccess || result == ncclInvalidArgument || result == ncclInvalidUsage);
    CHECK_EQ(pthread_join(other, NULL), 0);
    OK(ncclCommAbort(pair[1]));
  }
}
static void* resume_in_vain(void* comm) {
  FAILS(ncclCommResume(comm), ncclInvalidUsage, "ncclCommAbort on this rank");
  return NULL;
}
static void aborted_while_resumed(void) {
  OK(ncclCommInitAll(pair, 2, NULL));
  for (int r = 0; r < 2; ++r) OK(ncclCommSuspend(pair[r], NCCL_SUSPEND_MEM));
  CHECK_EQ(pthread_create(&other, NULL, resume_in_vain, pair[0]), 0);
  for (ncclResult_t state = ncclSuccess; state != ncclInProgress;)
    OK(ncclCommGetAsyncError(pair[0], &state));
  OK(ncclCommAbort(pair[0]));
  CHECK_EQ(pthread_join(other, NULL), 0);
  OK(ncclCommAbort(pair[1]));
}

const Case today_cases[] = {{"today/suspended", suspended},
                            {"today/suspended_in_a_group", suspended_in_a_group},
                            {"today/suspended_nonblocking", suspended_nonblocking},
                            {"today/aborted_while_suspended", aborted_while_suspended},
                            {"today/aborted_while_resumed", aborted_while_resumed},
                            {"today/dies_suspended", dies_suspended},
                            {"today/never_resumes", never_resumes},
                            {"today/params", params},
                            {"today/params_in_the_log", params_in_the_log},
                            {"today/properties", properties},
                            {"today/configured_calls", configured_calls},
                            {"today/algorithms", algorithms},
                            {"today/other_algorithms", other_algorithms},
                            {"today/bad_configs_of_calls", bad_configs_of_calls},
                            {"today/configs_of_today", configs_of_today},
                            {"today/late", late},
                            {"today/late_old", late_old},
                            {"today/encrypted", encrypted},
                            {"today/other_secret", other_secret},
                            {"today/bad_encryption", bad_encryption},
                            {NULL, NULL}};
#else
const Case today_cases[] = {{NULL, NULL}};
#endif
