# The last lines of cmake/test-runs.sh have the reason of every test that skipped: of one of GoogleTest's, of
# an echo in the place of tests that this machine cannot build, and of a script of CMake's; and what failed
# first in every test that did. Run by ctest with -D SAMPLE=... -D SOURCE_DIR=... -D FOLDER=...

# run(OUT_STATUS OUT_LAST): the tests of ${FOLDER}/build.
function(run outStatus outLast)
  execute_process(
    COMMAND bash -c ". ${SOURCE_DIR}/cmake/test-runs.sh; tests release some; summary 'make test'"
    WORKING_DIRECTORY ${FOLDER} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  string(REGEX REPLACE "^.*\n== build/some\n" "" last "${said}")
  set(${outStatus} ${status} PARENT_SCOPE)
  set(${outLast} "${last}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(WRITE ${FOLDER}/says.cmake "message(STATUS \"SKIPPED: no such program is installed\")\n")
set(skips "PROPERTIES SKIP_REGULAR_EXPRESSION \"SKIPPED\"")
file(WRITE ${FOLDER}/build/CTestTestfile.cmake
     "add_test(sample \"${SAMPLE}\" \"--gtest_filter=Skips.*\")\nset_tests_properties(sample ${skips})\n"
     "add_test(absent \"${CMAKE_COMMAND}\" -E echo \"SKIPPED: collectives on GPUs: this build has no CUDA\")\n"
     "set_tests_properties(absent ${skips})\n"
     "add_test(script \"${CMAKE_COMMAND}\" -P ${FOLDER}/says.cmake)\nset_tests_properties(script ${skips})\n"
     "add_test(passes \"${CMAKE_COMMAND}\" -E echo \"as it should\")\n")
run(status last)
foreach(words "2 Skipped: as repository_skips wants it" "1 Skipped: collectives on GPUs: this build has no CUDA"
        "1 Skipped: no such program is installed" "make test: all passed")
  if(NOT status EQUAL 0 OR NOT last MATCHES "${words}\n")
    message(FATAL_ERROR "status ${status}, and not in the last lines: ${words}\n${last}")
  endif()
endforeach()
if(last MATCHES "as it should|Failed: ")
  message(FATAL_ERROR "what passes is no reason to skip, nor has it failed:\n${last}")
endif()

file(APPEND ${FOLDER}/build/CTestTestfile.cmake
     "add_test(fails \"${SAMPLE}\")\nset_tests_properties(fails PROPERTIES ENVIRONMENT TUTTI_TEST_FAIL=1)\n"
     "add_test(ends \"${CMAKE_COMMAND}\" -P ${FOLDER}/none.cmake)\n")
run(status last)
foreach(words "Failed: fails after [0-9.]+ s\n  [^\n]*skips_sample.cc:[0-9]+: Failure\n.*\n  .  FAILED  . Runs.AndFailsWhenTold "
        "Failed: ends after [0-9.]+ s\n  CMake Error: [^\n]*none.cmake" "make test: FAILED\n")
  if(status EQUAL 0 OR NOT last MATCHES "${words}")
    message(FATAL_ERROR "status ${status}, and not in the last lines: ${words}\n${last}")
  endif()
endforeach()
