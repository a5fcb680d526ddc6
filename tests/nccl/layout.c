/* Prints every constant and layout of nccl.h. The output is the same with Tutti's header and with
 * NCCL's, and is compared with layout.txt. */

#include <stddef.h>
#include <stdio.h>

#include <nccl.h>

#define NUMBER(name) printf("%s %lld\n", #name, (long long)(name))
#define TYPE(type) printf("%s size %zu align %zu\n", #type, sizeof(type), _Alignof(type))
#define FIELD(type, field)                                                  \
  printf("%s.%s at %zu, %zu bytes\n", #type, #field, offsetof(type, field), \
         sizeof(((type*)0)->field))

int main(void) {
  NUMBER(NCCL_MAJOR);
  NUMBER(NCCL_MINOR);
  NUMBER(NCCL_PATCH);
  printf("NCCL_SUFFIX %s\n", NCCL_SUFFIX);
  NUMBER(NCCL_VERSION_CODE);
  NUMBER(NCCL_VERSION(2, 8, 4));
  NUMBER(NCCL_VERSION(2, 9, 1));
  NUMBER(NCCL_UNIQUE_ID_BYTES);
  NUMBER(NCCL_CONFIG_UNDEF_INT);
  NUMBER((size_t)NCCL_CONFIG_UNDEF_PTR);
  NUMBER((size_t)NCCL_COMM_NULL);
  NUMBER(NCCL_UNDEF_FLOAT * 1000);
  NUMBER(NCCL_SPLIT_NOCOLOR);
  NUMBER(NCCL_WIN_DEFAULT);
  NUMBER(NCCL_WIN_COLL_SYMMETRIC);
  NUMBER(NCCL_WIN_REQUIRED_ALIGNMENT);
  NUMBER(NCCL_CTA_POLICY_DEFAULT);
  NUMBER(NCCL_CTA_POLICY_EFFICIENCY);
  NUMBER(NCCL_CTA_POLICY_ZERO);
  NUMBER(NCCL_SHRINK_DEFAULT);
  NUMBER(NCCL_SHRINK_ABORT);
  NUMBER(NCCL_REVOKE_DEFAULT);

  NUMBER(ncclSuccess);
  NUMBER(ncclUnhandledCudaError);
  NUMBER(ncclSystemError);
  NUMBER(ncclInternalError);
  NUMBER(ncclInvalidArgument);
  NUMBER(ncclInvalidUsage);
  NUMBER(ncclRemoteError);
  NUMBER(ncclInProgress);
  NUMBER(ncclNumResults);
  NUMBER(ncclNumOps_dummy);
  NUMBER(ncclSum);
  NUMBER(ncclProd);
  NUMBER(ncclMax);
  NUMBER(ncclMin);
  NUMBER(ncclAvg);
  NUMBER(ncclNumOps);
  NUMBER(ncclMaxRedOp);
  NUMBER(ncclInt8);
  NUMBER(ncclChar);
  NUMBER(ncclUint8);
  NUMBER(ncclInt32);
  NUMBER(ncclInt);
  NUMBER(ncclUint32);
  NUMBER(ncclInt64);
  NUMBER(ncclUint64);
  NUMBER(ncclFloat16);
  NUMBER(ncclHalf);
  NUMBER(ncclFloat32);
  NUMBER(ncclFloat);
  NUMBER(ncclFloat64);
  NUMBER(ncclDouble);
  NUMBER(ncclBfloat16);
  NUMBER(ncclFloat8e4m3);
  NUMBER(ncclFloat8e5m2);
  NUMBER(ncclNumTypes);
  NUMBER(ncclScalarDevice);
  NUMBER(ncclScalarHostImmediate);

  TYPE(ncclComm_t);
  TYPE(ncclWindow_t);
  TYPE(cudaStream_t);
  TYPE(ncclUniqueId);
  TYPE(ncclResult_t);
  TYPE(ncclRedOp_t);
  TYPE(ncclRedOp_dummy_t);
  TYPE(ncclDataType_t);
  TYPE(ncclScalarResidence_t);
  TYPE(ncclConfig_t);
  TYPE(struct ncclConfig_v22800);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  TYPE(ncclSimInfo_t);
  TYPE(struct ncclSimInfo_v22200);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);

  const ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  NUMBER(c.size);
  NUMBER(c.magic);
  NUMBER(c.version);
  NUMBER(c.blocking);
  NUMBER(c.cgaClusterSize);
  NUMBER(c.minCTAs);
  NUMBER(c.maxCTAs);
  NUMBER((size_t)c.netName);
  NUMBER(c.splitShare);
  NUMBER(c.trafficClass);
  NUMBER((size_t)c.commName);
  NUMBER(c.collnetEnable);
  NUMBER(c.CTAPolicy);
  NUMBER(c.shrinkShare);
  NUMBER(c.nvlsCTAs);
  NUMBER(c.nChannelsPerNetPeer);
  NUMBER(c.nvlinkCentricSched);
  const ncclSimInfo_t s = NCCL_SIM_INFO_INITIALIZER;
  NUMBER(s.size);
  NUMBER(s.magic);
  NUMBER(s.version);
  NUMBER(s.estimatedTime * 1000);
  return 0;
}
