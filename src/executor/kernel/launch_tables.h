#pragma once

// What a launch needs to know that does not fit its arguments: tables in pinned memory, which the
// kernel reads. Each begins with a word that the launch's last lane sets; then its room is taken
// for another. That of a captured launch is taken when its graph is gone.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/executor/kernel/arena.h"
#include "transports/p2p/owned_memory.h"

namespace tutti::executor::kernel {

class LaunchTables {
 public:
  /// `owner`: for messages.
  LaunchTables(size_t bytes, const std::string& owner);

  /// Rows behind the word; false where none has been taken. Copies are of one table.
  class Table {
   public:
    /// Rows of one type behind those before.
    template <class Row>
    Row* rows(size_t count) {
      auto* const first = reinterpret_cast<Row*>(memory_.get() + at_);
      at_ += count * sizeof(Row);
      return first;
    }
    uint32_t* ended() const { return reinterpret_cast<uint32_t*>(memory_.get()); }

    explicit operator bool() const { return memory_ != nullptr; }

   private:
    friend class LaunchTables;
    std::shared_ptr<unsigned char> memory_;
    size_t at_ = kHeaderBytes;
  };
  /// Where launches under way hold all the room, waits for one to end, and calls `isWorthIt`
  /// meanwhile, which throws when it is not. Throws OutOfMemory where graphs hold it.
  Table take(size_t rowBytes, const std::function<void()>& isWorthIt);
  /// To be called when its launch has been enqueued there.
  void keep(const Table& table, cudaStream_t stream);

 private:
  static constexpr size_t kHeaderBytes = 16;
  void reclaim();

  transports::p2p::PinnedMemory<unsigned char> memory_;
  DeviceArena arena_;
  std::vector<Table> launched_;
  struct Captured {
    Table table;
    std::shared_ptr<std::atomic<bool>> isOver;  // set by a thread of CUDA's
  };
  std::vector<Captured> captured_;
};

}  // namespace tutti::executor::kernel
