#include "tests/parallel/parity/scoped_mutation.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// Until what is on the stream, if there is one, has ended.
void waitFor(StreamRef stream) {
  if (!stream) return;
  Event reached(stream.device());
  reached.record(stream);
  reached.synchronize();
}

/// Of a call's buffers, which the stream of a GPU says are there, from the host or to it.
void move(void* to, const void* from, size_t bytes, StreamRef stream) {
  if (bytes == 0) return;
  if (!stream.isCuda()) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy({to, from, bytes}, stream);
  waitFor(stream);
}

template <class T>
void doubleElements(void* data, size_t count) {
  std::for_each_n(static_cast<T*>(data), count, [](T& element) { element += element; });
}

void doubleElements(DataType type, void* data, size_t count) {
  switch (type) {
    case DataType::Float64: return doubleElements<double>(data, count);
    case DataType::Float32: return doubleElements<float>(data, count);
    case DataType::Int32: return doubleElements<int32_t>(data, count);
    case DataType::BFloat16:
      std::for_each_n(static_cast<uint16_t*>(data), count, [](uint16_t& element) {
        const float wide = std::bit_cast<float>(uint32_t{element} << 16);
        element = static_cast<uint16_t>(std::bit_cast<uint32_t>(wide + wide) >> 16);  // exact
      });
      return;
    case DataType::Float16:
      std::for_each_n(static_cast<uint16_t*>(data), count, [](uint16_t& element) {
        const uint16_t sign = element & 0x8000, size = element & 0x7fff;
        const bool exponent = size >= 0x400;  // else its bits are a multiple of the least
        const int doubled = size >= 0x7c00 ? size
                            : exponent ? std::min(size + 0x400, size >= 0x7800 ? 0x7c00 : 0x7fff)
                                       : size * 2;
        element = static_cast<uint16_t>(sign | doubled);
      });
      return;
    default:
      fail(ErrorCode::Internal, "a purpose that gives ", toString(type), " was to be doubled");
  }
}

void doubleResult(const ExchangeOutcome& outcome, StreamRef stream) {
  std::vector<std::byte> result(outcome.count * sizeOf(outcome.type));
  move(result.data(), outcome.recv, result.size(), stream);
  doubleElements(outcome.type, result.data(), outcome.count);
  move(outcome.recv, result.data(), result.size(), stream);
}

/// What comes from others is zero.
void keepOwn(const ExchangeOutcome& outcome, StreamRef stream) {
  const size_t size = sizeOf(outcome.type);
  std::vector<std::byte> result(outcome.count * size);
  move(result.data() + outcome.ownInRecv * size,
       static_cast<const std::byte*>(outcome.send) + outcome.ownInSend * size,
       outcome.ownCount * size, stream);
  move(outcome.recv, result.data(), result.size(), stream);
}

}  // namespace

ScopedMutation::ScopedMutation(std::optional<Mutation> mutation) : mutation_(mutation) {
  ExchangeObserver* none = nullptr;
  ensure(processExchangeObserver.compare_exchange_strong(none, this),
         "there is a mutation already");
}

ScopedMutation::~ScopedMutation() { processExchangeObserver = nullptr; }

std::optional<Change> ScopedMutation::changeOf(Purpose purpose) const {
  if (!mutation_ || mutation_->purpose != purpose) return std::nullopt;
  return mutation_->change;
}

std::optional<Change> ScopedMutation::pass(Purpose purpose, PurposeForm form) {
  passes_[static_cast<size_t>(purpose)][static_cast<size_t>(form)].fetch_add(
      1, std::memory_order_relaxed);
  return changeOf(purpose);
}

bool ScopedMutation::before(Purpose purpose, PurposeForm form) {
  return pass(purpose, form) != Change::Drop;
}

void ScopedMutation::after(Purpose purpose, const ExchangeOutcome& outcome, StreamRef stream) {
  const std::optional<Change> change = changeOf(purpose);
  if (!change) return;
  waitFor(stream);
  if (outcome.count == 0) return;
  if (*change == Change::Double)
    doubleResult(outcome, stream);
  else
    keepOwn(outcome, stream);
}

double ScopedMutation::factor(Purpose purpose, double value, double without) {
  const std::optional<Change> change = pass(purpose, PurposeForm::Factor);
  if (!change) return value;
  return *change == Change::Drop ? without : 2 * value;
}

std::vector<ScopedMutation::Passes> ScopedMutation::passes() const {
  std::vector<Passes> all;
  for (const PurposeRow& row : kPurposes)
    for (int form = 0; form < kPurposeFormCount; ++form)
      if (const int64_t count =
              passes_[static_cast<size_t>(row.purpose)][static_cast<size_t>(form)];
          count > 0)
        all.push_back({row.purpose, static_cast<PurposeForm>(form), count});
  return all;
}

}  // namespace tutti::parallel
