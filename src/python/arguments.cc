#include "src/python/arguments.h"

#include <tutti/error.h>

namespace nb = nanobind;

namespace tutti::python {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::InvalidArgument, why); }

std::string elements(size_t count) {
  return std::to_string(count) + (count == 1 ? " element" : " elements");
}

}  // namespace

ArrayBuffer sendBuffer(nb::handle object, const std::string& dtype) {
  return object.is_none() ? ArrayBuffer() : ArrayBuffer(object, {"send", false}, dtype);
}

ArrayBuffer recvBuffer(nb::handle object, const std::string& dtype) {
  return object.is_none() ? ArrayBuffer() : ArrayBuffer(object, {"recv", true}, dtype);
}

void requireSameType(const ArrayBuffer& send, const ArrayBuffer& recv) {
  if (send.type() != recv.type() || send.isBool() != recv.isBool())
    refuse(std::string("recv: it holds ") + (recv.isBool() ? "bool" : toString(recv.type())) +
           ", but send holds " + (send.isBool() ? "bool" : toString(send.type())) +
           "; make both of one type, or name it by dtype for buffers of bytes");
}

void requireCount(const char* name, const ArrayBuffer& buffer, size_t count,
                  const std::string& right) {
  if (buffer.count() != count)
    refuse(std::string(name) + ": it has " + elements(buffer.count()) + ", not " +
           std::to_string(count) + ": " + right);
}

size_t blockOf(const char* name, const ArrayBuffer& buffer, int size) {
  const auto ranks = static_cast<size_t>(size);
  if (buffer.count() % ranks != 0)
    refuse(std::string(name) + ": " + elements(buffer.count()) + " are no equal blocks for " +
           std::to_string(size) + " ranks; pad the array, or use the call whose name ends in _v");
  return buffer.count() / ranks;
}

void requireBlocks(const char* name, const ArrayBuffer& buffer, const std::vector<size_t>& counts,
                   const std::vector<size_t>& offsets, int size) {
  const auto ranks = static_cast<size_t>(size);
  if (counts.size() != ranks || (!offsets.empty() && offsets.size() != ranks))
    refuse(std::string(name) + ": " + std::to_string(counts.size()) + " counts and " +
           std::to_string(offsets.size()) + " offsets are given for " + std::to_string(size) +
           " ranks; give one of each per rank, or no offsets");
  size_t end = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const size_t begin = offsets.empty() ? end : offsets[r];
    size_t blockEnd = 0;
    if (__builtin_add_overflow(begin, counts[r], &blockEnd) ||
        (counts[r] > 0 && blockEnd > buffer.count()))
      refuse(std::string(name) + ": the block of rank " + std::to_string(r) + " ends at element " +
             std::to_string(begin) + " + " + std::to_string(counts[r]) + ", but there are " +
             elements(buffer.count()) + "; pass a larger array, or other counts");
    end = blockEnd;
  }
}

ReduceOp opOf(const std::string& name, const ArrayBuffer& buffer) {
  const auto op = parseReduceOp(name);
  if (!op) {
    std::string all;
    for (int i = 0; i < kReduceOpCount; ++i)
      all += (i ? ", " : "") + std::string(toString(static_cast<ReduceOp>(i)));
    refuse("op: there is no reduction " + name + "; the reductions are " + all);
  }
  const bool isArithmetic =
      *op == ReduceOp::Sum || *op == ReduceOp::Avg || *op == ReduceOp::PreMulSum;
  if (buffer.isBool() && isArithmetic)
    refuse("op: " + name + " is not defined for bool; use logical_or or logical_and, or reduce " +
           "x.view('uint8')");
  return *op;
}

CallOptions optionsOfCall(const std::string& algorithm) {
  return {.algorithm = algorithm.empty() ? nullptr : algorithm.c_str()};
}

}  // namespace tutti::python
