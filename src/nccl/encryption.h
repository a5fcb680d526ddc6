#pragma once

// What ncclSetEncryption() has said.

#include <string>

#include <tutti/communicator.h>

namespace tutti::nccl {

struct Encryption {
  bool seals = false;
  std::string preSharedKey;
};

/// From now on, for communicators that are made by an id. Thread safe.
void setEncryption(Encryption encryption);
/// Sets it in `options`, where it was said.
void applyEncryption(CommunicatorOptions& options);

}  // namespace tutti::nccl
