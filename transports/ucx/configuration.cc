#include "transports/ucx/configuration.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/rdma_devices.h"
#include "transports/ucx/quirks.h"
#include "transports/ucx/settings.h"

namespace tutti::transports::ucx {
namespace {

// So that a peer's death is noticed within 5 s where UCX looks for it, unreliable datagrams aside,
// and that no connect() blocks: it would hold the worker's lock for as long as the kernel tries to
// reach a host that does not answer. What the user has set in the environment stays.
struct Default {
  const char *variable, *value;
};
constexpr std::array<Default, 5> kDefaults{{{"UCX_TCP_CONN_NB", "y"},
                                            {"UCX_KEEPALIVE_INTERVAL", "1s"},
                                            {"UCX_TCP_KEEPIDLE", "1s"},
                                            {"UCX_TCP_KEEPINTVL", "1s"},
                                            {"UCX_TCP_KEEPCNT", "3"}}};

// Where the version has the fault.
//
// UCX sends from where a message lies only with one vector for its memory and one for its header:
// with one it copies what the kernel does not take at once, and all of a message longer than a
// segment.
//
// To have patience with a peer is not to notice that an unreliable datagram's peer is dead: the
// control plane and the deadlines of operations do that.
struct Workaround {
  Quirk quirk;
  Default setting;
};
constexpr std::array<Workaround, 2> kWorkarounds{
    {{Quirk::AbortsOnHalfSentMessage, {"UCX_TCP_MAX_IOV", "1"}},
     {Quirk::AbortsOnImpatience, {"UCX_UD_TIMEOUT", "3600s"}}}};

/// As ucp_config_modify() has it: "UCX_TCP_KEEPIDLE" is "TCP_KEEPIDLE".
std::string nameOf(std::string_view variable) {
  constexpr std::string_view kPrefix = "UCX_", kOfTcp = "TCP_";
  variable.remove_prefix(kPrefix.size());
  if (variable.starts_with(kOfTcp) && has(library().version, Quirk::ShortSettingNames))
    variable.remove_prefix(kOfTcp.size());
  return std::string(variable);
}

/// A device that this UCX was built without has no settings.
void prefer(const UcxConfig& config, const Default& setting) {
  const std::string name = nameOf(setting.variable);
  if (library().configModify(config.get(), name.c_str(), setting.value) != UCS_OK)
    base::log(LogLevel::Debug, "UCX ", library().version, " has no setting ", name);
}

void set(const UcxConfig& config, const char* name, const std::string& value) {
  if (library().configModify(config.get(), name, value.c_str()) != UCS_OK)
    base::fail(ErrorCode::System, "UCX does not accept UCX_", name, "=", value);
}

/// That of `variable`, or else of `other`, or else what a full slot needs.
const char* segmentOf(const char* variable, const char* other) {
  for (const char* const each : {variable, other})
    if (const char* const value = std::getenv(each)) return value;
  return "320K";
}

// So that a full slot goes over TCP as one segment, headers included: a message of several is put
// together by UCX in memory that it gets for it and gives back, which took up to 1.4 times as long,
// and from 64 KiB on, UCX's default, nearly three times where all of a call is one message. UCX
// refuses segments that are sent larger than they are taken in.
void preferSegments(const UcxConfig& config) {
  constexpr const char *kTaken = "UCX_TCP_RX_SEG_SIZE", *kSent = "UCX_TCP_TX_SEG_SIZE";
  prefer(config, {kTaken, segmentOf(kTaken, kSent)});
  prefer(config, {kSent, segmentOf(kSent, kTaken)});
}

}  // namespace

UcxConfig readConfig(const WorkerOptions& options) {
  ucp_config_t* read = nullptr;
  const ucs_status_t status = library().configRead(nullptr, nullptr, &read);
  if (status != UCS_OK)
    base::fail(ErrorCode::System,
               "UCX cannot read its configuration: ", library().statusString(status));
  UcxConfig config(read);
  for (const Default& each : kDefaults)
    if (!std::getenv(each.variable)) prefer(config, each);
  for (const auto& [quirk, setting] : kWorkarounds)
    if (has(library().version, quirk) && !std::getenv(setting.variable)) prefer(config, setting);
  preferSegments(config);
  const bool rdma =
      allowsRdma(effective(options.tls, "UCX_TLS")) && !base::usableRdmaDevices().empty();
  if (!options.rendezvous.empty())
    set(config, "RNDV_THRESH", options.rendezvous);
  else if (!rdma && !std::getenv("UCX_RNDV_THRESH"))
    set(config, "RNDV_THRESH", "inf");
  if (!options.devices.empty()) set(config, "NET_DEVICES", options.devices);
  if (!options.tls.empty()) set(config, "TLS", options.tls);
  return config;
}

}  // namespace tutti::transports::ucx
