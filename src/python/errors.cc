#include "src/python/errors.h"

#include <exception>

namespace nb = nanobind;

namespace tutti::python {

nb::object exceptionOf(const Error& error, int rank) {
  return nb::module_::import_("tutti._errors")
      .attr("error_of")(toString(error.code()), error.what(),
                        rank < 0 ? nb::none() : nb::object(nb::int_(rank)));
}

namespace {

void raise(const Error& error, int rank) {
  try {
    const nb::object exception = exceptionOf(error, rank);
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
  } catch (nb::python_error& e) {  // of a handler of signals, which ran meanwhile
    e.restore();
  }
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const RankedError& e) {
    raise(e, e.rank());
  } catch (const Error& e) {
    raise(e, -1);
  }
}

}  // namespace

void registerErrors(nb::module_&) { nb::register_exception_translator(&translate, nullptr); }

}  // namespace tutti::python
