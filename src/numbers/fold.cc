#include "src/numbers/fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/base/check.h"
#include "src/numbers/convert.h"

namespace tutti::numbers {
namespace {

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored x) { return x; }
  static Stored store(Value x) {
    if constexpr (std::is_floating_point_v<T>)
      if (x != x) return std::numeric_limits<T>::quiet_NaN();
    return x;
  }
};
template <class Format, class Bits>
struct Narrow {
  using Stored = Bits;
  using Value = float;
  static Value load(Stored x) { return Format::widen(x); }
  static Stored store(Value x) {
    return static_cast<Stored>(x != x ? Format::kQuietNan : Format::narrow(x));
  }
};

template <class V>
V combine(ReduceOp op, V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    using U = std::make_unsigned_t<std::common_type_t<V, int>>;
    if (op == ReduceOp::Prod) return static_cast<V>(static_cast<U>(a) * static_cast<U>(b));
    if (op == ReduceOp::Min) return std::min(a, b);
    if (op == ReduceOp::Max) return std::max(a, b);
    return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    if (op == ReduceOp::Prod) return a * b;
    if (op != ReduceOp::Min && op != ReduceOp::Max) return a + b;
    if (a != a || b != b) return std::numeric_limits<V>::quiet_NaN();
    if (a == b) return std::signbit(a) == (op == ReduceOp::Min) ? a : b;
    return (a < b) == (op == ReduceOp::Min) ? a : b;
  }
}

template <class V>
V scale(V x, double scalar) {
  if (scalar == 1.0) return x;
  if constexpr (std::is_floating_point_v<V>) {
    return x * static_cast<V>(scalar);
  } else {
    const double y = std::trunc(static_cast<double>(x) * scalar);
    if (y != y) return 0;
    if (y >= std::ldexp(1.0, std::numeric_limits<V>::digits)) return std::numeric_limits<V>::max();
    if (y <= static_cast<double>(std::numeric_limits<V>::min()))
      return std::numeric_limits<V>::min();
    return static_cast<V>(y);
  }
}

template <class V>
V divide(V x, int divisor) {
  if constexpr (std::is_floating_point_v<V>) return x / static_cast<V>(divisor);
  using Wide = std::conditional_t<std::is_signed_v<V>, int64_t, uint64_t>;
  return static_cast<V>(static_cast<Wide>(x) / static_cast<Wide>(divisor));
}

template <class Type>
class Folder {
  using Stored = typename Type::Stored;
  using Value = typename Type::Value;

 public:
  explicit Folder(const FoldRequest& request) : request_(request) {}

  void run() {
    for (size_t i = 0; i < request_.count; ++i) {
      Value value =
          request_.order == FoldOrder::Listed ? listed(i) : tree(i, 0, request_.sources.size());
      if (request_.divideBy != 1) value = divide(value, request_.divideBy);
      const Stored bits = Type::store(value);
      for (void* target : request_.targets)
        std::memcpy(static_cast<char*>(target) + i * sizeof bits, &bits, sizeof bits);
    }
  }

 private:
  Value leaf(size_t i, size_t source) const {
    Stored bits;
    std::memcpy(&bits, static_cast<const char*>(request_.sources[source]) + i * sizeof bits,
                sizeof bits);
    const Value value = Type::load(bits);
    return request_.premultiply.empty() ? value : scale(value, request_.premultiply[source]);
  }
  Value listed(size_t i) const {
    Value value = leaf(i, 0);
    for (size_t s = 1; s < request_.sources.size(); ++s)
      value = combine(request_.op, value, leaf(i, s));
    return value;
  }
  Value tree(size_t i, size_t first, size_t count) const {
    Value value;
    if (count == 1) {
      value = leaf(i, first);
    } else {
      const size_t left = std::bit_floor(count - 1);
      value = combine(request_.op, tree(i, first, left), tree(i, first + left, count - left));
    }
    return Type::load(Type::store(value));
  }
  const FoldRequest& request_;
};

template <class Type>
void run(const FoldRequest& request) {
  Folder<Type>(request).run();
}

void dispatch(const FoldRequest& request) {
  switch (request.type) {
    case DataType::Int8: return run<Plain<int8_t>>(request);
    case DataType::UInt8: return run<Plain<uint8_t>>(request);
    case DataType::Int16: return run<Plain<int16_t>>(request);
    case DataType::UInt16: return run<Plain<uint16_t>>(request);
    case DataType::Int32: return run<Plain<int32_t>>(request);
    case DataType::UInt32: return run<Plain<uint32_t>>(request);
    case DataType::Int64: return run<Plain<int64_t>>(request);
    case DataType::UInt64: return run<Plain<uint64_t>>(request);
    case DataType::Float16: return run<Narrow<Float16Format, uint16_t>>(request);
    case DataType::BFloat16: return run<Narrow<BFloat16Format, uint16_t>>(request);
    case DataType::Float32: return run<Plain<float>>(request);
    case DataType::Float64: return run<Plain<double>>(request);
    case DataType::Float8E4M3: return run<Narrow<Float8E4M3Format, uint8_t>>(request);
    case DataType::Float8E5M2: return run<Narrow<Float8E5M2Format, uint8_t>>(request);
  }
}

bool plainCopy(const FoldRequest& request) {
  const auto one = [](double scalar) { return scalar == 1.0; };
  return request.sources.size() == 1 && request.divideBy == 1 &&
         std::all_of(request.premultiply.begin(), request.premultiply.end(), one);
}

void validate(const FoldRequest& request) {
  TUTTI_REQUIRE(!request.sources.empty(), "fold has no sources");
  TUTTI_REQUIRE(!request.targets.empty(), "fold has no targets");
  TUTTI_REQUIRE(request.premultiply.empty() || request.premultiply.size() == request.sources.size(),
                "fold has ", request.sources.size(), " sources and ", request.premultiply.size(),
                " scalars");
  TUTTI_REQUIRE(request.divideBy >= 1, "fold divides by ", request.divideBy);
  const bool adds = request.op == ReduceOp::Sum || request.op == ReduceOp::Avg ||
                    request.op == ReduceOp::PreMulSum;
  TUTTI_REQUIRE(adds || (request.premultiply.empty() && request.divideBy == 1), "fold of ",
                toString(request.op), " has scalars or a divisor");
}

}  // namespace

void fold(const FoldRequest& request) {
  validate(request);
  if (!plainCopy(request)) return dispatch(request);
  const size_t bytes = request.count * sizeOf(request.type);
  for (void* target : request.targets)
    if (bytes != 0 && target != request.sources[0]) std::memmove(target, request.sources[0], bytes);
}

}  // namespace tutti::numbers
