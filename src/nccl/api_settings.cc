// ncclParam*, ncclSetEncryption: settings of the process.

#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/nccl/config.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/encryption.h"
#include "src/nccl/entry.h"
#include "src/nccl/environment.h"

using namespace tutti::nccl;
using tutti::base::printable;

/// What a handle stands for. They stay until the end of the process.
struct ncclParamHandle {
  std::string name, value;
};

namespace {

const std::vector<ncclParamHandle>& params() {
  static const auto* const all = [] {
    auto* const made = new std::vector<ncclParamHandle>;
    for (auto& [name, value] : settings()) made->push_back({std::move(name), std::move(value)});
    return made;
  }();
  return *all;
}

const ncclParamHandle& paramNamed(const char* key) {
  TUTTI_REQUIRE(key, "key is null");
  for (const ncclParamHandle& param : params())
    if (param.name == key) return param;
  tutti::base::fail(tutti::ErrorCode::InvalidArgument, "there is no setting ", printable(key),
                    ": ncclParamGetAllParameterKeys() names them");
}

/// Throws InvalidArgument for a handle that ncclParamBind() has not given.
const ncclParamHandle& paramOf(ncclParamHandle_t handle) {
  for (const ncclParamHandle& param : params())
    if (&param == handle) return param;
  tutti::base::fail(tutti::ErrorCode::InvalidArgument, static_cast<const void*>(handle),
                    " is no handle of ncclParamBind()");
}

template <class Number>
ncclResult_t getNumber(const char* function, ncclParamHandle_t handle, Number* out) {
  return guard(function, [&] {
    TUTTI_REQUIRE(out, "out is null");
    const ncclParamHandle& param = paramOf(handle);
    const char* const end = param.value.data() + param.value.size();
    Number number = 0;
    const auto [rest, error] = std::from_chars(param.value.data(), end, number);
    TUTTI_REQUIRE(error == std::errc() && rest == end, param.name, " is \"", printable(param.value),
                  "\", not a whole number of ", 8 * sizeof number, " bits");
    *out = number;
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key) {
  return guard("ncclParamBind", [&] {
    TUTTI_REQUIRE(out, "out is null");
    *out = const_cast<ncclParamHandle_t>(&paramNamed(key));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamBind);

#define TUTTI_NCCL_PARAM(name, Number)                          \
  ncclResult_t p##name(ncclParamHandle_t handle, Number* out) { \
    return getNumber(#name, handle, out);                       \
  }                                                             \
  TUTTI_NCCL_NAME(name)
TUTTI_NCCL_PARAM(ncclParamGetI8, int8_t);
TUTTI_NCCL_PARAM(ncclParamGetI16, int16_t);
TUTTI_NCCL_PARAM(ncclParamGetI32, int32_t);
TUTTI_NCCL_PARAM(ncclParamGetI64, int64_t);
TUTTI_NCCL_PARAM(ncclParamGetU8, uint8_t);
TUTTI_NCCL_PARAM(ncclParamGetU16, uint16_t);
TUTTI_NCCL_PARAM(ncclParamGetU32, uint32_t);
TUTTI_NCCL_PARAM(ncclParamGetU64, uint64_t);
#undef TUTTI_NCCL_PARAM

ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char** out) {
  return guard("ncclParamGetStr", [&] {
    TUTTI_REQUIRE(out, "out is null");
    *out = paramOf(handle).value.c_str();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamGetStr);

ncclResult_t pncclParamGet(ncclParamHandle_t handle, void* out, int maxLen, int* len) {
  return guard("ncclParamGet", [&] {
    TUTTI_REQUIRE(out, "out is null");
    TUTTI_REQUIRE(len, "len is null");
    const ncclParamHandle& param = paramOf(handle);
    TUTTI_REQUIRE(maxLen >= 0 && param.value.size() <= static_cast<size_t>(maxLen), param.name,
                  " has ", param.value.size(), " bytes, and maxLen is ", maxLen);
    std::memcpy(out, param.value.data(), param.value.size());
    *len = static_cast<int>(param.value.size());
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamGet);

ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen) {
  return guard("ncclParamGetParameter", [&] {
    TUTTI_REQUIRE(value, "value is null");
    TUTTI_REQUIRE(valueLen, "valueLen is null");
    const ncclParamHandle& param = paramNamed(key);
    *value = param.value.c_str();
    *valueLen = static_cast<int>(param.value.size());
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamGetParameter);

ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return guard("ncclParamGetAllParameterKeys", [&] {
    TUTTI_REQUIRE(table, "table is null");
    TUTTI_REQUIRE(tableLen, "tableLen is null");
    thread_local std::vector<const char*> names;
    names.clear();
    for (const ncclParamHandle& param : params()) names.push_back(param.name.c_str());
    *table = names.data();
    *tableLen = static_cast<int>(names.size());
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamGetAllParameterKeys);

void pncclParamDumpAll() {
  guard("ncclParamDumpAll", [] {
    for (const ncclParamHandle& param : params())
      DebugLog::ofProcess().info(Subsystem::Env, param.name, "=", printable(param.value));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclParamDumpAll);

ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t* config) {
  return guard("ncclSetEncryption", [&] {
    TUTTI_REQUIRE(config, "config is null");
    ncclEncryptionConfig_t c = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
    copyKnown(config, c, "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    TUTTI_REQUIRE(c.mode == NCCL_ENCRYPTION_MODE_NONE || c.mode == NCCL_ENCRYPTION_MODE_PSK,
                  "the config's mode is ", c.mode, ", no ncclEncryptionMode_t");
    const bool seals = c.mode == NCCL_ENCRYPTION_MODE_PSK;
    TUTTI_REQUIRE(!seals || (c.psk && *c.psk), "the config's psk is ", c.psk ? "empty" : "null",
                  ": NCCL_ENCRYPTION_MODE_PSK needs a secret of all ranks");
    setEncryption({seals, seals ? c.psk : ""});
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclSetEncryption);
