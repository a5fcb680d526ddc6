#pragma once

/// \file
/// Windows and one-sided calls. A window has one buffer of each rank. Every rank may put data into
/// the buffers of the others, who make no call for that.
///
/// - Communicator::window() makes the next window. Every rank calls it, but no rank waits there for
///   the others. The buffers may have different sizes, also zero.
/// - Communicator::put() writes to the peer's buffer, and then counts a signal of this rank there.
/// - Communicator::signal() only counts.
/// - Communicator::waitSignals() ends when so many signals have come, and takes them. The data of
///   their puts are there then.
///
/// All but window() throw InvalidUsage before the first window.
///
/// \par Order
/// The puts and signals of one rank to another arrive in the order in which they run there. If a
/// signal has come, the data of its put are there. One-sided calls do not count in the order of
/// collectives; streams and signals give the order that they need. Waits take signals in the order
/// in which the waits begin. In a group, the one-sided calls of a communicator on one stream are in
/// flight at once: a wait does not hold back the puts behind it.
///
/// \par Completion
/// A put is done when its data may change again, which may be before they are in the peer's buffer.
/// Ranks of one host store straight into memory of Communicator::allocate(), and into memory of
/// each other's GPUs if these have peer access. All else goes by messages, which the peer's process
/// applies while the rank does something else.
///
/// \par Failure
/// As of all calls. Besides: if a put arrives at a rank that has given its buffer back, the
/// communicator fails with InvalidUsage.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <tutti/buffer.h>
#include <tutti/types.h>

namespace tutti {

/// This rank's share of a window that Communicator::window() made. It keeps its communicator.
///
/// While it lives, other ranks may write to this rank's buffer at any time. The buffer must outlive
/// it. Before you destroy it, make sure that nobody puts into it any more, for example by a
/// barrier. A later put into the buffer throws InvalidUsage, or fails the communicator if it was
/// under way.
class Window {
 public:
  /// A window that is none.
  Window() = default;
  ~Window();  ///< gives this rank's buffer back
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;

  explicit operator bool() const { return impl_ != nullptr; }
  /// This rank's buffer, and its communicator's rank.
  void* buffer() const;
  int rank() const;
  /// The size of a rank's buffer, in bytes. It waits until that rank has called window(): throws
  /// Timeout after the set-up timeout, and the failure if the communicator fails.
  size_t bytes(int rank) const;
  /// The address at which this rank, on its host or GPU, can load from and store to a rank's
  /// buffer. Null if it cannot. It waits as bytes() does. Valid while this object and that rank's
  /// share live.
  void* address(int rank) const;

  struct Impl;
  explicit Window(std::shared_ptr<Impl> impl);

 private:
  friend class Communicator;
  std::shared_ptr<Impl> impl_;
};

/// Arguments of Communicator::put().
struct PutArgs {
  ConstBuffer send = {};
  std::optional<size_t> count = {};  ///< not set: the size of send
  std::optional<DataType> type = {};
  int peer = 0;  ///< the rank whose buffer is written; this rank itself is allowed
  const Window* window = nullptr;
  size_t offset = 0;  ///< where the data go in the peer's buffer, in bytes
  int signal = 0;     ///< which signal is counted, below CommunicatorOptions::signals
};
/// Arguments of Communicator::signal().
struct SignalArgs {
  int peer = 0;
  int signal = 0;
};
/// So many signals of one rank.
struct AwaitedSignals {
  int peer = 0;
  int signal = 0;
  uint64_t count = 1;
};
/// Arguments of Communicator::waitSignals().
struct WaitSignalsArgs {
  std::span<const AwaitedSignals> signals;
};

}  // namespace tutti
