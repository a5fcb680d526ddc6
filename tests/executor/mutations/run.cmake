# Runs every mutation's test, with the bug and, which has to pass, without, and says of each whether the
# test has seen it: failed, crashed or taken too long, and said why. Run by ctest with -D FOLDER=...,
# where the programs are. With -D ONLY=... those mutations alone whose names match it.

# Of a test: without a bug they take a few seconds on a busy machine.
set(limit 30)
# Kernels of which all threads wait, and streams that do, are ended earlier.
set(ENV{TUTTI_EMULATION_TIMEOUT} 5)
set(ENV{TSAN_OPTIONS} halt_on_error=1)
# As ctest runs most of them: a kernel that was not loaded at set-up is an error.
set(ENV{TUTTI_EMULATION_LAZY_LOADING} 2)
# As it runs those of copies.
set(ENV{CUDA_DEVICE_MAX_CONNECTIONS} 32)

set_property(GLOBAL PROPERTY seen 0)
set_property(GLOBAL PROPERTY wrong "")

# Runs `program` as the row says. Sets result, output and seconds.
function(run program)
  set(ENV{TUTTI_EMULATION_SEED} ${m_SEED})
  string(TIMESTAMP begin %s)
  execute_process(COMMAND ${FOLDER}/${program} --gtest_filter=${m_FILTER} --gtest_fail_fast
                  TIMEOUT ${limit} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(TIMESTAMP end %s)
  math(EXPR seconds "${end} - ${begin}")
  set(result "${result}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
  set(seconds ${seconds} PARENT_SCOPE)
endfunction()

function(report_wrong what)
  message("${m_NAME}: ${what}\n${result}\n${output}")
  set_property(GLOBAL APPEND PROPERTY wrong ${m_NAME})
endfunction()

# Once for all rows that run the same; sets `passes`. A filter that names no test passes nothing.
function(check_original)
  set(key "${m_ORIGINAL} ${m_FILTER} ${m_SEED}")
  get_property(passes GLOBAL PROPERTY "${key}")
  if(NOT DEFINED passes)
    run(${m_ORIGINAL})
    set(passes NO)
    if(result EQUAL 0 AND output MATCHES "\\[  PASSED  \\] [1-9]")
      set(passes YES)
    endif()
    message("passes without a bug: ${m_TEST} ${m_FILTER}, ${m_BUILD}, seed ${m_SEED}: ${passes}, ${seconds} s")
    set_property(GLOBAL PROPERTY "${key}" ${passes})
  endif()
  set(passes ${passes} PARENT_SCOPE)
  set(result "${result}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(use_mutation)
  if(ONLY AND NOT m_NAME MATCHES "${ONLY}")
    return()
  endif()
  check_original()
  if(NOT passes)
    report_wrong("its test fails without the bug")
    return()
  endif()
  run(${m_MUTANT})
  if(result EQUAL 0)
    report_wrong("MISSED")
  elseif(NOT "${result}\n${output}" MATCHES "${m_SHOWS}")
    report_wrong("something else is wrong than ${m_SHOWS}")
  else()
    string(REGEX REPLACE "/[^ ]*/" "" shown "${CMAKE_MATCH_0}")
    string(SUBSTRING "${shown}" 0 100 shown)
    message("caught: ${m_NAME}, ${m_BUILD}, ${seconds} s: ${shown}")
    get_property(seen GLOBAL PROPERTY seen)
    math(EXPR seen "${seen} + 1")
    set_property(GLOBAL PROPERTY seen ${seen})
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/mutation.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/table.cmake)

get_property(seen GLOBAL PROPERTY seen)
get_property(wrong GLOBAL PROPERTY wrong)
list(LENGTH wrong count)
message("${seen} mutations caught, ${count} not")
if(wrong OR seen EQUAL 0)
  message(FATAL_ERROR "not caught: ${wrong}")
endif()
