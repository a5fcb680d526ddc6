#pragma once

// One direction between two ranks: a communicator that a thread opens, and its stream. What is to
// be done on it waits until it is open.

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tasks.h"

namespace tutti_torch {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Open = std::function<tutti::Communicator(std::stop_token)>;
  /// Gets the channel's communicator and stream, or the error for which there is none.
  using Use = std::function<void(tutti::Communicator*, tutti::StreamRef, std::exception_ptr)>;

  static constexpr size_t kHeaderBytes = 256;

  explicit Channel(Open open) : open_(std::move(open)) {}

  /// Calls `use` when the channel is open or has failed: on this thread or on the one that opens
  /// it. One call at a time, in order. The first call opens the channel.
  void use(Use use);
  /// Called by a `use`: calls `then` behind all that it has enqueued, on the progress engine's
  /// thread, with the channel's failure or null.
  void behind(tutti::Communicator& communicator, std::function<void(std::exception_ptr)> then);
  /// Ends what is under way, on both sides.
  void abort();
  /// Waits for what is on the stream, until then, and aborts the rest; lets the communicator go.
  /// What waits for the opening fails. Called once, and not by a `use`.
  void close(Clock::time_point until);

  std::array<std::byte, kHeaderBytes> header;  ///< of the message that is read

 private:
  void openNow(std::stop_token stop);
  void serve(std::unique_lock<std::mutex>& lock);

  const Open open_;
  std::mutex mutex_;
  std::jthread opener_;
  std::vector<Use> waiting_;
  std::unique_ptr<tutti::Communicator> communicator_;  // stays where it is: calls under way use it
  std::unique_ptr<tutti::Stream> stream_;
  std::exception_ptr failure_;
  std::condition_variable served_;
  bool serving_ = false;  // a thread uses the communicator and the stream, without the mutex
};

}  // namespace tutti_torch
