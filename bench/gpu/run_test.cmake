# run.sh: what its report says of programs that pass, fail, hang and end in the middle of their tests, and of time
# that runs out; and on the emulation's one device, as on a machine with one GPU. SCRIPT, BUILD, FOLDER for
# what it writes.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/build/tests/emulated)

# run(STATUS ARGUMENTS...): the report, in `report`.
function(run status)
  execute_process(COMMAND bash ${SCRIPT} --emulated --only checks --out ${FOLDER}/report ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL status)
    message(FATAL_ERROR "${ARGN}: status ${result}, not ${status}:\n${said}")
  endif()
  file(READ ${FOLDER}/report/report.md report)
  set(report "${report}" PARENT_SCOPE)
endfunction()

# expect(PATTERN...): regular expressions that the report matches.
function(expect)
  foreach(pattern IN LISTS ARGN)
    if(NOT report MATCHES "${pattern}")
      message(FATAL_ERROR "not in the report: ${pattern}\n${report}")
    endif()
  endforeach()
endfunction()

# Tests that are as GoogleTest's: what is in SKIPPED is not run, and each writes that it was.
file(WRITE ${FOLDER}/build/tests/gpu_communicator_test [=[#!/bin/bash
skipped=:${1#--gtest_filter=-}:
for test in Some.Passes Some.Hangs Some.Crashes All/Some.Leaves/0 All/Some.Fails/1 Some.PassesToo; do
  case $skipped in *:$test:*) continue ;; esac
  echo "[ RUN      ] $test"
  case $test in
    *Hangs) sleep 100 ;;
    *Crashes) kill -SEGV $$ ;;
    *Leaves*) exit 0 ;;
    *Fails*) echo "[  FAILED  ] $test, where GetParam() = 1 (1 ms)"; failed=1 ;;
    *) echo "[       OK ] $test (1 ms)" ;;
  esac
done
echo "[==========] 6 tests from 2 test suites ran. (1 ms total)"
exit ${failed:-0}
]=])
file(WRITE ${FOLDER}/build/tests/gpu_processes_test [=[#!/bin/bash
echo "[ RUN      ] Some.Passes"
echo "tutti [error] which a test expects"
echo "[       OK ] Some.Passes (1 ms)"
for test in Some.Skips All/Some.Skips/0; do
  echo "[ RUN      ] $test"
  echo "some_test.cc:7: Skipped"
  echo "it wants two devices"
  echo
  echo "[  SKIPPED ] $test (0 ms)"
done
echo "[==========] 3 tests from 2 test suites ran. (1 ms total)"
echo "[  PASSED  ] 1 test."
echo "[  SKIPPED ] 2 tests, listed below:"
echo "[  SKIPPED ] Some.Skips"
echo "[  SKIPPED ] All/Some.Skips/0"
]=])
file(WRITE ${FOLDER}/build/tests/nccl_gpu [=[#!/bin/bash
echo "tutti [error] which a case expects"
echo "ok   gpu/one"
echo "FAIL gpu/other"
exit 1
]=])
foreach(program gpu_communicator_test gpu_processes_test nccl_gpu)
  file(CHMOD ${FOLDER}/build/tests/${program} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(ENV{TUTTI_TEST_CASE_SECONDS} 2)
run(1 --build ${FOLDER}/build --parts "communicator.*|nccl_programs|torch")
expect("\n. communicator . ..failed.. [^\n]*All/Some.Fails/1 All/Some.Leaves/0 Some.Crashes Some.Hangs *.\n"
       "\n. communicator_processes . passed . [0-9]+ s, but for what was skipped"
       "\n- communicator_processes: skipped, it wants two devices: Some.Skips All/Some.Skips/0\n" "\n. communicator_hosts . not run: there is no gpu_hosts_test"
       "\n. nccl_programs . ..failed.. .status 1. . gpu/other *.\n"
       "\n- communicator_hosts: there is no" "Checks that failed: 2[.]" "\n- checks: --parts leaves out all but")
if(report MATCHES "training|threads_2")
  message(FATAL_ERROR "parts that were not asked for:\n${report}")
endif()
file(READ ${FOLDER}/report/communicator.txt said)
if(NOT said MATCHES "OK . Some.Passes .*OK . Some.PassesToo ")
  message(FATAL_ERROR "what is behind a test that fails was not run:\n${said}")
endif()
string(REGEX MATCHALL "RUN      . Some.Passes\n" passes "${said}")
list(LENGTH passes count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "a test was run ${count} times:\n${said}")
endif()
run(1 --build ${FOLDER}/build --parts "communicat|train")
expect("No part has a name that --parts asks for: communicat.train")
run(0 --build ${FOLDER}/build --seconds 4 --parts communicator)
expect("\n. communicator . not run: no time left" "\n- communicator: no time left" "Checks that failed: 0[.]")

# One device, and too little time for all that is asked for.
unset(ENV{TUTTI_TEST_CASE_SECONDS})
set(ENV{TUTTI_EMULATION_DEVICES} 1)
set(ENV{TUTTI_EMULATION_PROCESSORS} 16)
run(0 --build ${BUILD} --seconds 200 --parts "device|executor_(cop.*s|cuda_launches)|nccl_programs|(threads|processes)_2_(all_reduce|alltoall)")
foreach(part device executor_cuda_launches executor_copy_plans executor_copy_faults executor_copy_processes nccl_programs threads_2_all_reduce processes_2_all_reduce threads_2_alltoall processes_2_alltoall)
  expect("\n. ${part} . passed ")
endforeach()
expect("Checks that failed: 0[.]" "\n- device: skipped, [^\n]*CudaPlacement.IsRefusedStreamsOfOtherDevices")
run(0 --build ${BUILD} --seconds 7 --parts communicator)
expect("\n. communicator . not done: no time left" "\n- communicator: no time left, after")
