#pragma once

// The memory of a Python object: anything with the buffer protocol or DLPack, on the host, without
// a copy. An ArrayBuffer keeps the memory alive. The GIL is held where one is made, copied or
// destroyed.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string>
#include <vector>

#include <tutti/types.h>

namespace tutti::python {

/// How a call uses an argument, and the argument's name in errors.
struct Use {
  const char* name;
  bool writes;
};

class ArrayBuffer {
 public:
  /// No memory: null, of no elements.
  ArrayBuffer() = default;
  /// `dtype` names the element type of a buffer of bytes; empty: the object's own. Throws Error of
  /// InvalidArgument, which names the argument and the cure.
  ArrayBuffer(nanobind::handle object, Use use, const std::string& dtype);

  void* data() const { return data_; }
  size_t count() const { return count_; }  ///< elements of type()
  DataType type() const { return type_; }
  bool isBool() const { return isBool_; }
  /// Of the object, whatever type its bytes are taken for.
  nanobind::tuple shape() const;

 private:
  void import(nanobind::handle object, Use use);
  void reinterpret(Use use, const std::string& dtype);

  nanobind::ndarray<nanobind::ro> array_;
  void* data_ = nullptr;
  size_t count_ = 0;
  DataType type_ = DataType::UInt8;
  bool isBool_ = false;
};

/// The type of that name, as Tutti, NumPy, ml_dtypes and PyTorch have them. Throws InvalidArgument.
DataType typeOfName(const std::string& name);

/// The buffers that a call uses, until it has ended.
using ArrayBuffers = std::vector<ArrayBuffer>;

}  // namespace tutti::python
