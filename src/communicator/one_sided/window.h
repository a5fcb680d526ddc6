#pragma once

// What Window stands for: this rank's share of a window.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <tutti/window.h>

#include "src/communicator/one_sided/one_sided.h"
#include "src/communicator/owners.h"

namespace tutti {

struct Window::Impl {
  Impl(std::shared_ptr<const communicator::Owners> owners, void* data, uint64_t bytes);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Of a rank's buffer; null where this rank cannot address it. It stays mapped until this object
  /// goes, too.
  std::shared_ptr<std::byte> addressOf(int rank, const communicator::OneSided::Buffer& buffer);

  const std::shared_ptr<const communicator::Owners> owners;
  void* const data;
  const uint64_t bytes;
  const uint64_t number;

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<std::byte>> addresses_;
};

}  // namespace tutti
