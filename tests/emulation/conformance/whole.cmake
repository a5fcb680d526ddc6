# Fails where the emulation defines a function of tutti::cuda::ptx, in a form, that no conformance test
# calls. NM: the program; EMULATION: its library; TESTS: the tests' objects, with | between.

# symbols(OUT KIND FILES ...): the functions of that kind, U for what is called and T for what is defined.
function(symbols out kind)
  execute_process(COMMAND ${NM} -C ${ARGN} OUTPUT_VARIABLE lines ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " ${kind} tutti::cuda::ptx::[^\n]*" found "${lines}")
  list(TRANSFORM found REPLACE "^ ${kind} " "")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

string(REPLACE "|" ";" objects "${TESTS}")
symbols(called U ${objects})
symbols(defined T ${EMULATION})
list(LENGTH defined count)
if(count LESS 150)
  message(FATAL_ERROR "${NM} shows ${count} functions of tutti::cuda::ptx in ${EMULATION}, and there are more")
endif()
list(REMOVE_ITEM defined ${called})
if(defined)
  list(JOIN defined "\n  " missing)
  message(FATAL_ERROR "No conformance test calls\n  ${missing}")
endif()
message("${count} functions")
