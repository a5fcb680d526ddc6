#pragma once

// Errors of the library become exceptions of Python: tutti.Error and a class for each code, which
// tutti/_errors.py defines.

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include <tutti/communicator.h>
#include <tutti/error.h>

namespace tutti::python {

/// An error, and the rank on which a call threw it.
class RankedError final : public Error {
 public:
  RankedError(const Error& error, int rank) : Error(error), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Errors of `call` know the rank.
template <class Call>
decltype(auto) onRank(int rank, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const Error& e) {
    throw RankedError(e, rank);
  }
}

void registerErrors(nanobind::module_& m);
/// The exception of an error that is not thrown.
nanobind::object exceptionOf(const Error& error, int rank);

}  // namespace tutti::python
