#pragma once

// Trace: how long the thread that computes waits for other ranks, and, when it is on, what it does
// when, for a picture of all ranks (engine/trace_file.h). Every wait costs two readings of the
// clock; what is recorded costs them, and memory, only when it is on.
//
// Spans have the words of the library: forward, backward, weights, send, receive, all_reduce, ...
// Those that are inside others end before these.

#include <chrono>
#include <cstdint>
#include <vector>

namespace tutti::parallel {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Of a thread of this rank.
  enum class Lane : uint8_t { Compute, Checkpoint };
  struct Event {
    const char* name;  ///< a literal
    Clock::time_point begin, end;
    Lane lane = Lane::Compute;
    int chunk = -1, microBatch = -1;  ///< where it is about them
    bool waits = false;               ///< for other ranks
  };
  /// More are counted, and not kept.
  static constexpr size_t kMostEvents = size_t{1} << 18;

  void start() { on_ = true; }
  bool on() const { return on_; }
  const std::vector<Event>& events() const { return events_; }
  int64_t dropped() const { return dropped_; }
  /// Seconds, since it was made, for other ranks.
  double waited() const { return std::chrono::duration<double>(waited_).count(); }

  void add(const Event& event) {
    if (!on_) return;
    if (events_.size() < kMostEvents)
      events_.push_back(event);
    else
      ++dropped_;
  }

  /// What this thread does while it lives.
  class Span {
   public:
    Span(Trace& trace, const char* name, int chunk = -1, int microBatch = -1)
        : trace_(trace), event_{.name = name, .chunk = chunk, .microBatch = microBatch} {
      if (trace_.on_) event_.begin = Clock::now();
    }
    ~Span() {
      if (!trace_.on_ || event_.begin == Clock::time_point{}) return;
      event_.end = Clock::now();
      trace_.add(event_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace& trace_;
    Event event_;
  };

  /// The same, of a wait for other ranks; inside another one it is part of that.
  class Wait {
   public:
    Wait(Trace& trace, const char* name) : trace_(trace), name_(name), begin_(Clock::now()) {
      ++trace_.waits_;
    }
    ~Wait() {
      const Clock::time_point end = Clock::now();
      if (--trace_.waits_ > 0) return;
      trace_.waited_ += end - begin_;
      trace_.add({.name = name_, .begin = begin_, .end = end, .waits = true});
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Trace& trace_;
    const char* const name_;
    const Clock::time_point begin_;
  };

 private:
  bool on_ = false;
  int waits_ = 0;  // that have begun
  Clock::duration waited_{};
  std::vector<Event> events_;
  int64_t dropped_ = 0;
};

}  // namespace tutti::parallel
