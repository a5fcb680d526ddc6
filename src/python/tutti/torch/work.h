#pragma once

// What PyTorch gets for an operation: its Work is a task, which errors of Tutti end as errors of
// torch.distributed. Included by backend.cc alone, as PyTorch's headers take half a minute.

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <tutti/error.h>

#include "messages.h"
#include "tasks.h"

namespace tutti_torch {

/// What torch.distributed raises for it.
inline std::exception_ptr translated(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const tutti::Error& e) {
    try {
      if (e.code() == tutti::ErrorCode::InvalidArgument)
        TORCH_CHECK_VALUE(false, "tutti: ", e.what());
      if (e.code() == tutti::ErrorCode::Unsupported)
        TORCH_CHECK_NOT_IMPLEMENTED(false, "tutti: ", e.what());
      C10_THROW_ERROR(DistBackendError,
                      c10::str("tutti: ", tutti::toString(e.code()), " error: ", e.what()));
    } catch (...) {
      return std::current_exception();
    }
  } catch (...) {
    return error;
  }
  return nullptr;
}

/// What is called.
struct Call {
  c10d::OpType type;
  const char* name;
  const char* title;  // of the profiler
  milliseconds timeout;
  bool async;
};

/// An operation on tensors of the host.
class TaskWork : public c10d::Work {
 public:
  /// What a thread that waits can do for the task, and what becomes of it at its deadline.
  struct Care {
    std::function<void()> help;                             // may be null
    std::function<void(const std::exception_ptr&)> giveUp;  // gets the error that wait() throws
    std::function<std::exception_ptr()> look =
        nullptr;            // a failure that concerns the task; may be null
    milliseconds grace{0};  // after its deadline, for its own time-out, which says more
  };
  struct About {
    int rank;
    c10d::OpType type;
    const char* title;
    std::vector<at::Tensor> inputs, outputs;
    uint64_t sequence;
  };

  TaskWork(const About& about, std::shared_ptr<Task> task, Care care)
      : c10d::Work(about.rank, about.type, about.title, about.inputs),
        about_(about),
        task_(std::move(task)),
        care_(std::move(care)) {
    about_.inputs.clear();
    if (recordFunctionEndCallback_) task_->whenDone(recordFunctionEndCallback_);
  }

  bool isCompleted() override { return task_->isDone(); }
  bool isSuccess() const override { return task_->isDone() && !task_->error(); }
  std::exception_ptr exception() const override { return translated(task_->error()); }
  std::vector<at::Tensor> result() override { return about_.outputs; }
  uint64_t getSequencenumber() const override { return about_.sequence; }
  void synchronize() override {}
  void abort() override { care_.giveUp(aborted()); }

  bool wait(milliseconds timeout = kNoTimeout) override {
    if (!task_->isDone()) await(timeout);
    if (const auto error = task_->error()) std::rethrow_exception(translated(error));
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    std::lock_guard lock(futureMutex_);
    if (future_) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    task_->whenDone([future = future_, task = task_.get(), outputs = about_.outputs] {
      if (const auto error = task->error())
        future->setError(translated(error));
      else
        future->markCompleted(c10::IValue(outputs));
    });
    return future_;
  }

 protected:
  const std::shared_ptr<Task>& task() const { return task_; }

 private:
  // A look at other failures now and then.
  static constexpr milliseconds kLook{100};

  std::exception_ptr aborted() const {
    return std::make_exception_ptr(
        tutti::Error(tutti::ErrorCode::Aborted, "the operation was aborted"));
  }

  // The deadline of the task ends it; an earlier one of the caller alone ends only his wait.
  void await(milliseconds timeout) {
    const auto last = task_->deadline() + care_.grace;
    const auto deadline =
        timeout > kNoTimeout && timeout < task_->timeout() ? Clock::now() + timeout : last;
    if (care_.help && deadline == last) care_.help();
    while (!task_->waitUntil(care_.look ? std::min(deadline, Clock::now() + kLook) : deadline)) {
      if (const auto failure = care_.look ? care_.look() : nullptr) care_.giveUp(failure);
      if (Clock::now() < deadline) continue;
      const auto error = late(timeout);
      if (deadline == last) care_.giveUp(error);
      std::rethrow_exception(translated(error));
    }
  }

  std::exception_ptr late(milliseconds timeout) const {
    const auto allowed =
        timeout > kNoTimeout ? std::min(timeout, task_->timeout()) : task_->timeout();
    const std::string text =
        c10::str("rank ", rank_, ": ", c10d::opTypeToString(opType_),
                 " timed out: it did not complete within ", allowed.count(), " ms");
    return makeTimeout(text.c_str());
  }

  static std::exception_ptr makeTimeout(const char* text) {
    return std::make_exception_ptr(tutti::Error(tutti::ErrorCode::Timeout, text));
  }

  About about_;
  const std::shared_ptr<Task> task_;
  const Care care_;
  std::mutex futureMutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// A send or a receive.
class MessageWork final : public TaskWork {
 public:
  MessageWork(const About& about, const std::shared_ptr<MessageTransfer>& transfer, Care care)
      : TaskWork(about, transfer, std::move(care)), transfer_(transfer) {}
  int sourceRank() const override { return transfer_->peer; }

 private:
  const std::shared_ptr<MessageTransfer> transfer_;
};

/// On a GPU: what was enqueued on the stream that was current.
class CudaWork final : public c10d::Work {
 public:
  CudaWork(int rank, const Call& call, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs, const c10::Stream& stream)
      : c10d::Work(rank, call.type, call.title, inputs),
        outputs_(std::move(outputs)),
        event_(at::kCUDA) {
    event_.record(stream);
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{stream.device()});
    future_->markCompleted(c10::IValue(outputs_));
    if (recordFunctionEndCallback_) recordFunctionEndCallback_();
  }
  bool isCompleted() override { return event_.query(); }
  bool isSuccess() const override { return true; }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override {
    const c10::impl::VirtualGuardImpl impl(at::kCUDA);
    event_.block(impl.getStream(impl.getDevice()));
  }
  bool wait(milliseconds) override {
    synchronize();
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  std::vector<at::Tensor> outputs_;
  c10::Event event_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tutti_torch
