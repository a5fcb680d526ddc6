#pragma once

// Comm: what a ncclComm_t stands for: a Communicator from before it exists until after its end.
//
// Being made, made, finalized or revoked, aborted; and the failures of each. With blocking = 0 its
// calls go to a stream of its own, and what makes communicators has threads of its own; both are
// "under way" until they have ended.
//
// One thread at a time calls it, apart from abort(), asyncResult() and revoke(), as NCCL has it.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>

#include <tutti/communicator.h>

#include "src/nccl/config.h"
#include "src/nccl/reductions.h"
#include "src/nccl/registrations.h"

namespace tutti::nccl {

class Comm {
 public:
  struct Facts {
    int device = 0;  ///< its number, which ncclCommCuDevice() says
    Device place;    ///< the GPU of that number; the host where there is none
    NcclConfig config;
  };
  /// One that is being made: under way until ready() or failed().
  explicit Comm(Facts facts);
  ~Comm();

  const Facts& facts() const { return facts_; }
  /// These throw InvalidArgument before it is made.
  int rank() const;
  int size() const;
  /// As Inspection has it.
  int addressableRanks() const;
  Reductions& reductions() { return reductions_; }
  Registrations& registrations() { return registrations_; }

  // By whoever makes it.
  void ready(Communicator communicator);
  void failed(const Error& error);
  /// Of its making, or of its being resumed: abort() asks it to stop, and so may others.
  std::stop_source stopOfMaking() const;

  /// A call on it. Throws what it has failed with, InvalidArgument while something is under way,
  /// and InvalidUsage when it was finalized or revoked. Abort and revoke wait for its end.
  class Use {
   public:
    explicit Use(std::shared_ptr<Comm> comm);
    ~Use();
    Use(Use&&) noexcept = default;
    Use& operator=(Use&&) = delete;
    Communicator& communicator() const { return *comm_->communicator_; }
    /// None when calls are to wait.
    StreamRef stream() const;

   private:
    friend class Comm;
    std::shared_ptr<Comm> comm_;
  };

  /// Makes calls on the communicators of `uses`: success, or ncclInProgress when some have blocking
  /// = 0. Throws what `calls` throws, and for what was ended by abort() or revoke() here, and not
  /// by another rank, InvalidUsage.
  template <class Calls>
  static ncclResult_t make(std::span<const Use> uses, const Calls& calls) {
    try {
      calls();
    } catch (const Error& e) {
      rethrow(uses, e);
    }
    return blocking(uses) ? ncclSuccess : ncclInProgress;
  }

  /// The parent of a communicator that is being made: under way until its end. Throws as Use does,
  /// but allows a revoked one. Where its operations are going to be ended, they may be under way,
  /// or have failed.
  enum class Operations { Remain, WillEnd };
  class Parenthood {
   public:
    Parenthood(std::shared_ptr<Comm> comm, Operations operations);
    ~Parenthood();
    Parenthood(const Parenthood&) = delete;
    Parenthood& operator=(const Parenthood&) = delete;
    Communicator& communicator() const { return *comm_->communicator_; }
    bool revoked() const;
    bool isAborted() const { return comm_->isAborted(); }

   private:
    std::shared_ptr<Comm> comm_;
  };

  bool isAborted() const;
  /// Gives its memory back. Throws as Use does.
  void suspend();
  /// A suspended one that is being resumed: under way until ready() or failed(). One that is
  /// dropped before resume() leaves it suspended. Throws InvalidUsage when it is not suspended.
  class Resumption {
   public:
    explicit Resumption(std::shared_ptr<Comm> comm);
    ~Resumption();
    Resumption(const Resumption&) = delete;
    Resumption& operator=(const Resumption&) = delete;
    Communicator resume();

   private:
    std::shared_ptr<Comm> comm_;
    std::optional<SuspendedCommunicator> suspended_;
  };
  bool isSuspended() const;
  /// What it has, or had when it was suspended: of the host, or of its GPU.
  uint64_t memoryBytes() const;

  /// Throws InvalidArgument the second time, and InvalidUsage after revoke().
  void finalize();
  /// Waits for what its stream has left. Throws InvalidArgument when it, or one from it, is being
  /// made.
  void drain();
  void abort();
  /// Ends what is under way, waits for that, and refuses calls from now on.
  void revoke();
  /// Success, what it has failed with, or ncclInProgress. The sentence of a failure becomes the
  /// last error when this first returns it: nobody else tells of a call that nobody waited for.
  ncclResult_t asyncResult();

 private:
  [[noreturn]] static void rethrow(std::span<const Use> uses, const Error& error);
  static bool blocking(std::span<const Use> uses);
  void requireMade() const;
  void requireKnown() const;
  uint64_t bytesOf(const Communicator& communicator) const;
  void requireIdle();
  bool streamBusy();
  void stop(std::unique_lock<std::mutex>& lock);

  const Facts facts_;
  Reductions reductions_;
  Registrations registrations_;
  std::stop_source stop_;  // each time that it is made a new one
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Communicator> communicator_;        // once there, it stays until it is suspended
  std::optional<Stream> stream_;                    // with blocking = 0
  std::optional<SuspendedCommunicator> suspended_;  // then there is no communicator_
  int rank_ = 0, size_ = 0;                         // once it was made
  uint64_t suspendedBytes_ = 0;
  std::optional<Error> failure_;  // of making it
  int making_ = 1;                // itself, or communicators from it
  int uses_ = 0;
  bool finalized_ = false, revoked_ = false, aborted_ = false;
  bool told_ = false;  // the sentence of its asynchronous error
};

}  // namespace tutti::nccl
