#include "src/nccl/encryption.h"

#include <mutex>
#include <optional>
#include <utility>

namespace tutti::nccl {
namespace {

std::mutex mutex;
std::optional<Encryption> said;  // protected by `mutex`

}  // namespace

void setEncryption(Encryption encryption) {
  const std::lock_guard lock(mutex);
  said = std::move(encryption);
}

void applyEncryption(CommunicatorOptions& options) {
  const std::lock_guard lock(mutex);
  if (!said) return;
  options.encryption = said->seals;
  options.preSharedKey = said->preSharedKey;
}

}  // namespace tutti::nccl
