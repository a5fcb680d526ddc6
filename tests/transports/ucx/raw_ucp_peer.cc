#include "tests/transports/ucx/raw_ucp_peer.h"

#include <stdexcept>

#include "src/base/clock.h"
#include "transports/ucx/library.h"

namespace tutti::tests {
namespace {

using transports::ucx::library;

void require(bool works, const char* what) {
  if (!works) throw std::runtime_error(what);
}

}  // namespace

RawUcpPeer::RawUcpPeer(const transports::ucx::WorkerOptions& options,
                       const base::Bytes& workerAddress) {
  ucp_config_t* config = nullptr;
  require(library().configRead(nullptr, nullptr, &config) == UCS_OK, "ucp_config_read");
  library().configModify(config, "NET_DEVICES", options.devices.c_str());
  library().configModify(config, "TLS", options.tls.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  const ucs_status_t made =
      library().initVersion(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  library().configRelease(config);
  require(made == UCS_OK, "ucp_init");
  const ucp_worker_params_t workerParams{};
  require(library().workerCreate(context_, &workerParams, &worker_) == UCS_OK, "ucp_worker_create");
  ucp_ep_params_t epParams{};
  epParams.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  epParams.address = reinterpret_cast<const ucp_address_t*>(workerAddress.data());
  epParams.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  require(library().epCreate(worker_, &epParams, &endpoint_) == UCS_OK, "ucp_ep_create");
}

RawUcpPeer::~RawUcpPeer() {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const closing = library().epCloseNbx(endpoint_, &params);
  const auto deadline = base::Deadline::after(std::chrono::seconds(2));
  while (UCS_PTR_IS_PTR(closing) && library().requestCheckStatus(closing) == UCS_INPROGRESS &&
         !deadline.passed())
    library().workerProgress(worker_);
  if (UCS_PTR_IS_PTR(closing)) library().requestFree(closing);
  progress();
  library().workerDestroy(worker_);
  library().cleanup(context_);
}

void RawUcpPeer::send(unsigned id, base::Bytes header, base::Bytes data, unsigned flags) {
  auto message = std::make_unique<Message>(Message{std::move(header), std::move(data)});
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = flags;
  message->request =
      library().amSendNbx(endpoint_, id, message->header.data(), message->header.size(),
                          message->data.data(), message->data.size(), &params);
  require(!UCS_PTR_IS_ERR(message->request), "ucp_am_send_nbx");
  if (message->request) underWay_.push_back(std::move(message));
}

void RawUcpPeer::progress() {
  library().workerProgress(worker_);
  std::erase_if(underWay_, [](const auto& message) {
    if (library().requestCheckStatus(message->request) == UCS_INPROGRESS) return false;
    library().requestFree(message->request);
    return true;
  });
}

}  // namespace tutti::tests
