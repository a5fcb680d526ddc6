#include "src/python/buffer.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <utility>

#include <tutti/error.h>

namespace nb = nanobind;

namespace tutti::python {

namespace {

using Code = nb::dlpack::dtype_code;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::InvalidArgument, why); }

std::string typeName(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__module__")) + "." +
         nb::cast<std::string>(object.type().attr("__qualname__"));
}

std::optional<DataType> typeOf(nb::dlpack::dtype type) {
  if (type.lanes != 1) return {};
  static constexpr std::pair<nb::dlpack::dtype, DataType> kTypes[] = {
      {{uint8_t(Code::Int), 8, 1}, DataType::Int8},
      {{uint8_t(Code::Int), 16, 1}, DataType::Int16},
      {{uint8_t(Code::Int), 32, 1}, DataType::Int32},
      {{uint8_t(Code::Int), 64, 1}, DataType::Int64},
      {{uint8_t(Code::UInt), 8, 1}, DataType::UInt8},
      {{uint8_t(Code::UInt), 16, 1}, DataType::UInt16},
      {{uint8_t(Code::UInt), 32, 1}, DataType::UInt32},
      {{uint8_t(Code::UInt), 64, 1}, DataType::UInt64},
      {{uint8_t(Code::Float), 16, 1}, DataType::Float16},
      {{uint8_t(Code::Float), 32, 1}, DataType::Float32},
      {{uint8_t(Code::Float), 64, 1}, DataType::Float64},
      {{uint8_t(Code::Bfloat), 16, 1}, DataType::BFloat16},
      {{uint8_t(Code::Bool), 8, 1}, DataType::UInt8},
      {{uint8_t(Code::Float8_E4M3FN), 8, 1}, DataType::Float8E4M3},
      {{uint8_t(Code::Float8_E5M2), 8, 1}, DataType::Float8E5M2}};
  for (const auto& [dlpack, mine] : kTypes)
    if (dlpack == type) return mine;
  return {};
}

/// NumPy exports the types of ml_dtypes neither by its buffers nor by DLPack. Then the array as
/// integers of the same size, with the name of its type.
std::optional<std::pair<nb::object, DataType>> asIntegers(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return {};
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "name")) return {};
  const auto name = nb::cast<std::string>(nb::str(dtype.attr("name")));
  if (name == "bfloat16") return {{object.attr("view")("uint16"), DataType::BFloat16}};
  if (name == "float8_e4m3fn") return {{object.attr("view")("uint8"), DataType::Float8E4M3}};
  if (name == "float8_e5m2") return {{object.attr("view")("uint8"), DataType::Float8E5M2}};
  return {};
}

/// A memoryview of what has the buffer protocol alone: it has strides, which arrays of ctypes leave
/// out.
nb::object withStrides(nb::handle object) {
  if (nb::hasattr(object, "__dlpack__") || !PyObject_CheckBuffer(object.ptr()))
    return nb::borrow(object);
  nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (view.is_valid()) return view;
  PyErr_Clear();  // the import says why
  return nb::borrow(object);
}

bool importArray(nb::handle given, bool writes, nb::ndarray<nb::ro>& into) {
  const nb::object object = withStrides(given);
  nb::ndarray<> writable;
  if (writes && nb::try_cast(object, writable)) {
    into = nb::ndarray<nb::ro>(writable);
    return true;
  }
  return !writes && nb::try_cast(object, into);
}

/// What DLPack says against it: of a tensor that wants a gradient, or on another device.
std::string objectionOf(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return "";
  try {
    object.attr("__dlpack__")();
  } catch (nb::python_error& e) {
    return ": " + nb::cast<std::string>(nb::str(e.value()));
  }
  return "";
}

/// Numbers of Python's own, which NumPy makes an array of.
bool isPlain(nb::handle object) {
  return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object) ||
         nb::isinstance<nb::int_>(object) || nb::isinstance<nb::float_>(object);
}

[[noreturn]] void refuseObject(nb::handle object, Use use) {
  nb::ndarray<nb::ro> readable;
  const std::string whose = std::string(use.name) + ": ";
  if (use.writes && importArray(object, false, readable))
    refuse(whose +
           "the array is read-only, and this call writes to it; pass a writable one, "
           "as x.copy()");
  refuse(whose + "a " + typeName(object) +
         " gives no array of numbers on the host by the buffer protocol or DLPack" +
         objectionOf(object) +
         (isPlain(object)
              ? "; pass a NumPy array, as numpy.asarray(x)"
              : "; pass a NumPy array, a tensor on the CPU (x.detach().cpu()) or bytes"));
}

bool isContiguous(const nb::ndarray<nb::ro>& array) {
  if (array.size() == 0) return true;
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

}  // namespace

DataType typeOfName(const std::string& name) {
  if (name == "float8_e4m3fn") return DataType::Float8E4M3;
  if (const auto type = parseDataType(name)) return *type;
  std::string all;
  for (int i = 0; i < kDataTypeCount; ++i)
    all += (i ? ", " : "") + std::string(toString(static_cast<DataType>(i)));
  refuse("dtype: there is no type " + name + "; the types are " + all);
}

ArrayBuffer::ArrayBuffer(nb::handle object, Use use, const std::string& dtype) {
  import(object, use);
  if (!dtype.empty()) reinterpret(use, dtype);
}

nb::tuple ArrayBuffer::shape() const {
  nb::list extents;
  for (size_t i = 0; i < array_.ndim(); ++i) extents.append(array_.shape(i));
  return nb::tuple(extents);
}

void ArrayBuffer::import(nb::handle object, Use use) {
  const std::string whose = std::string(use.name) + ": ";
  std::optional<std::pair<nb::object, DataType>> integers;
  if (!importArray(object, use.writes, array_)) {
    integers = asIntegers(object);
    if (!integers || !importArray(integers->first, use.writes, array_)) refuseObject(object, use);
  }
  if (array_.device_type() != nb::device::cpu::value &&
      array_.device_type() != nb::device::cuda_host::value)
    refuse(whose + "the array is not in memory of the host; pass a copy there (x.cpu(), x.get())");
  if (!isContiguous(array_))
    refuse(whose + "the array is not contiguous in C order; pass numpy.ascontiguousarray(x), and " +
           "copy a result back");
  const auto type = integers ? std::optional(integers->second) : typeOf(array_.dtype());
  if (!type)
    refuse(whose + "Tutti has no type for the elements of this " + typeName(object) +
           "; view them as one that it has, as complex numbers by x.view('float32')");
  type_ = *type;
  isBool_ = array_.dtype().code == static_cast<uint8_t>(Code::Bool);
  count_ = array_.size();
  data_ = const_cast<void*>(static_cast<const void*>(array_.data()));
}

void ArrayBuffer::reinterpret(Use use, const std::string& dtype) {
  const DataType wanted = typeOfName(dtype);
  if (wanted == type_ && !isBool_) return;
  const bool isBytes = type_ == DataType::UInt8 || type_ == DataType::Int8;
  const bool isWords = type_ == DataType::UInt16 && sizeOf(wanted) == 2;
  if (isBool_ || !(isBytes || isWords))
    refuse(std::string(use.name) + ": dtype is " + dtype + ", but the array holds " +
           (isBool_ ? "bool" : toString(type_)) + "; leave dtype out, or pass a buffer of bytes");
  const size_t bytes = count_ * sizeOf(type_);
  if (bytes % sizeOf(wanted) != 0)
    refuse(std::string(use.name) + ": " + std::to_string(bytes) + " bytes are no whole number of " +
           dtype + ", which has " + std::to_string(sizeOf(wanted)) + " bytes each");
  type_ = wanted;
  count_ = bytes / sizeOf(wanted);
}

}  // namespace tutti::python
