/* Prints every constant and layout of nccl.h and of the host's part of nccl_device.h. The output is
 * the same with Tutti's headers and with NCCL's of the same version, and is compared with
 * layout.txt. With older headers of NCCL it is a part of that. */

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>

#include <nccl.h>
#if NCCL_VERSION_CODE >= 23203
#include <nccl_device.h>
#endif

#define NUMBER(name) printf("%s %lld\n", #name, (long long)(name))
#define TYPE(type) printf("%s size %zu align %zu\n", #type, sizeof(type), alignof(type))
#define FIELD(type, field)                                                  \
  printf("%s.%s at %zu, %zu bytes\n", #type, #field, offsetof(type, field), \
         sizeof(((type*)0)->field))

#if NCCL_VERSION_CODE >= 23203
static void of_today(void) {
  NUMBER(NCCL_WIN_GIN_ONLY);
  NUMBER(NCCL_WIN_CFT_COUNTED);
  NUMBER(ncclHostCftDefault);
  NUMBER(ncclHostCftEnable);
  NUMBER(ncclHostCftDisable);
  NUMBER(ncclHostCftFallback);
  NUMBER(ncclNvlsHostModeDefault);
  NUMBER(ncclNvlsHostModeEnable);
  NUMBER(ncclNvlsHostModeDisableTransport);
  NUMBER(ncclNvlsHostModeDisableSymmetricMultimem);
  NUMBER(ncclNvlsHostModeDisable);
  NUMBER(NCCL_ENCRYPTION_MODE_NONE);
  NUMBER(NCCL_ENCRYPTION_MODE_PSK);
  TYPE(ncclHostCftMode_t);
  TYPE(ncclNvlsHostMode_t);
  TYPE(struct ncclConfig_v23100);
  FIELD(ncclConfig_t, nvlsHostMode);
  TYPE(ncclConfigExt_t);
  TYPE(struct ncclConfigExt);
  FIELD(ncclConfigExt_t, next);
  FIELD(ncclConfigExt_t, key.vendorId);
  FIELD(ncclConfigExt_t, key.optionId);
  FIELD(ncclConfigExt_t, val.i);
  FIELD(ncclConfigExt_t, val.s);
  FIELD(ncclConfigExt_t, val.raw);
  TYPE(cudaEvent_t);
  TYPE(ncclCollConfig_t);
  TYPE(struct ncclCollConfig_v23200);
  FIELD(ncclCollConfig_t, size);
  FIELD(ncclCollConfig_t, magic);
  FIELD(ncclCollConfig_t, version);
  FIELD(ncclCollConfig_t, ext);
  FIELD(ncclCollConfig_t, minCTAs);
  FIELD(ncclCollConfig_t, maxCTAs);
  FIELD(ncclCollConfig_t, nvlsCTAs);
  FIELD(ncclCollConfig_t, cgaClusterSize);
  FIELD(ncclCollConfig_t, algSelection);
  FIELD(ncclCollConfig_t, forceAlgSelection);
  FIELD(ncclCollConfig_t, CTAPolicy);
  FIELD(ncclCollConfig_t, userProfilerTag);
  FIELD(ncclCollConfig_t, launchCompletionEvent);
  TYPE(ncclEncryptionMode_t);
  TYPE(ncclEncryptionConfig_t);
  TYPE(struct ncclEncryptionConfig_v23200);
  FIELD(ncclEncryptionConfig_t, size);
  FIELD(ncclEncryptionConfig_t, magic);
  FIELD(ncclEncryptionConfig_t, version);
  FIELD(ncclEncryptionConfig_t, mode);
  FIELD(ncclEncryptionConfig_t, psk);

  const ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  NUMBER(c.nvlsHostMode);
  const ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
  NUMBER(call.size);
  NUMBER(call.magic);
  NUMBER(call.version);
  NUMBER((size_t)call.ext);
  NUMBER(call.minCTAs);
  NUMBER(call.maxCTAs);
  NUMBER(call.nvlsCTAs);
  NUMBER(call.cgaClusterSize);
  NUMBER((size_t)call.algSelection);
  NUMBER(call.forceAlgSelection);
  NUMBER(call.CTAPolicy);
  NUMBER(call.userProfilerTag);
  NUMBER((size_t)call.launchCompletionEvent);
  const ncclEncryptionConfig_t e = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  NUMBER(e.size);
  NUMBER(e.magic);
  NUMBER(e.version);
  NUMBER(e.mode);
  NUMBER((size_t)e.psk);

  NUMBER(NCCL_CFT_TEAM_FLAT);
  NUMBER(NCCL_CFT_TEAM_HIER_MULTIMEM);
  NUMBER(NCCL_CFT_TEAM_HIER_LSA);
  NUMBER(NCCL_GIN_CONNECTION_NONE);
  NUMBER(NCCL_GIN_CONNECTION_FULL);
  NUMBER(NCCL_GIN_CONNECTION_RAIL);
  NUMBER(NCCL_GIN_CONNECTION_CUSTOM_STRIDE);
  NUMBER(NCCL_GIN_TYPE_NONE);
  NUMBER(NCCL_GIN_TYPE_PROXY);
  NUMBER(NCCL_GIN_TYPE_GDAKI);
  NUMBER(NCCL_GIN_TYPE_GPI);
  NUMBER(NCCL_GIN_TYPE_EFA_GDA);
  NUMBER(NCCL_GIN_MAX_TYPES);
  TYPE(ncclTeam_t);
  TYPE(struct ncclTeam);
  FIELD(ncclTeam_t, nRanks);
  FIELD(ncclTeam_t, rank);
  FIELD(ncclTeam_t, stride);
  TYPE(ncclCftTeamMode_t);
  TYPE(ncclGinType_t);
  TYPE(ncclGinConnectionType_t);
  TYPE(ncclMultimemHandle_t);
  FIELD(ncclMultimemHandle_t, mcBasePtr);
  TYPE(ncclCommProperties_t);
  TYPE(struct ncclCommProperties);
  FIELD(ncclCommProperties_t, size);
  FIELD(ncclCommProperties_t, magic);
  FIELD(ncclCommProperties_t, version);
  FIELD(ncclCommProperties_t, rank);
  FIELD(ncclCommProperties_t, nRanks);
  FIELD(ncclCommProperties_t, cudaDev);
  FIELD(ncclCommProperties_t, nvmlDev);
  FIELD(ncclCommProperties_t, deviceApiSupport);
  FIELD(ncclCommProperties_t, multimemSupport);
  FIELD(ncclCommProperties_t, ginType);
  FIELD(ncclCommProperties_t, nLsaTeams);
  FIELD(ncclCommProperties_t, hostRmaSupport);
  FIELD(ncclCommProperties_t, railedGinType);
  FIELD(ncclCommProperties_t, commHash);
  FIELD(ncclCommProperties_t, ginMinStride);
  FIELD(ncclCommProperties_t, ginConnectionType);
  FIELD(ncclCommProperties_t, ginSupport);
  FIELD(ncclCommProperties_t, devCommRuntimeVersionSize);
  FIELD(ncclCommProperties_t, cftSupport);
  FIELD(ncclCommProperties_t, cftMulticastSupport);
  FIELD(ncclCommProperties_t, cftCountedSupport);
  const ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
  NUMBER(p.size);
  NUMBER(p.magic);
  NUMBER(p.version);
}
#endif

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
#if NCCL_VERSION_CODE >= 23003
  NUMBER(ncclTimeout);
#endif
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
#if NCCL_VERSION_CODE >= 22907
  FIELD(ncclConfig_t, graphUsageMode);
  FIELD(ncclConfig_t, numRmaCtx);
#endif
#if NCCL_VERSION_CODE >= 23007
  FIELD(ncclConfig_t, maxP2pPeers);
  FIELD(ncclConfig_t, graphStreamOrdering);
#endif
#if NCCL_VERSION_CODE >= 23102
  FIELD(ncclConfig_t, launchOrderImplicit);
  FIELD(ncclConfig_t, numRmaSig);
  FIELD(ncclConfig_t, rmaEagerInit);
  FIELD(ncclConfig_t, hostCftMode);
#endif
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
#if NCCL_VERSION_CODE >= 22907
  NUMBER(c.graphUsageMode);
  NUMBER(c.numRmaCtx);
#endif
#if NCCL_VERSION_CODE >= 23007
  NUMBER(c.maxP2pPeers);
  NUMBER(c.graphStreamOrdering);
#endif
#if NCCL_VERSION_CODE >= 23102
  NUMBER(c.launchOrderImplicit);
  NUMBER(c.numRmaSig);
  NUMBER(c.rmaEagerInit);
  NUMBER(c.hostCftMode);
#endif
  const ncclSimInfo_t s = NCCL_SIM_INFO_INITIALIZER;
  NUMBER(s.size);
  NUMBER(s.magic);
  NUMBER(s.version);
  NUMBER(s.estimatedTime * 1000);

#if NCCL_VERSION_CODE >= 22907
  NUMBER(NCCL_API_MAGIC);
  NUMBER(NCCL_WIN_STRICT_ORDERING);
  NUMBER(NCCL_SUSPEND_MEM);
  NUMBER(ncclStatGpuMemSuspend);
  NUMBER(ncclStatGpuMemSuspended);
  NUMBER(ncclStatGpuMemPersist);
  NUMBER(ncclStatGpuMemTotal);
  TYPE(ncclCommMemStat_t);
  TYPE(ncclWaitSignalDesc_t);
  FIELD(ncclWaitSignalDesc_t, opCnt);
  FIELD(ncclWaitSignalDesc_t, peer);
  FIELD(ncclWaitSignalDesc_t, sigIdx);
  FIELD(ncclWaitSignalDesc_t, ctx);
#endif
#if NCCL_VERSION_CODE >= 23007
  TYPE(ncclParamHandle_t);
#endif
#if NCCL_VERSION_CODE >= 23203
  of_today();
#endif
  return 0;
}
