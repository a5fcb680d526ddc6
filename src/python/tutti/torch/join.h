#pragma once

// Joins communicators. PyTorch before 2.7 is compiled with the older ABI of std::string, and
// libtutti with the newer: what passes strings to libtutti is compiled apart from what passes
// strings to PyTorch, and this is between them.

#include <chrono>
#include <stop_token>

#include <tutti/communicator.h>

namespace tutti_torch {

struct JoinPlace {
  int rank = 0;
  int size = 1;
  tutti::Device device = {};
};

struct Limits {
  std::chrono::milliseconds setup;
  std::chrono::milliseconds operation;
  std::chrono::milliseconds straggler{0};  ///< 0: as the environment says
};

tutti::Communicator join(const tutti::UniqueId& id, const JoinPlace& place, const Limits& limits,
                         std::stop_token stop = {});

}  // namespace tutti_torch
