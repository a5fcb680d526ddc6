# The instructions of one short call, counted by Callgrind, which does the same each time: what 10,000 turns more
# take. A turn is a call of each of two ranks. MOST is what a call may take.
#   cmake -D VALGRIND=... -D PROGRAM=... -D KIND=... -D MOST=... -P call_cost.cmake

foreach(turns 2000 12000)
  execute_process(COMMAND ${VALGRIND} --tool=callgrind --callgrind-out-file=/dev/null ${PROGRAM} ${KIND} ${turns}
                  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0 OR NOT said MATCHES "Collected : ([0-9]+)")
    message(FATAL_ERROR "${PROGRAM} ${KIND} ${turns} ended with ${result}:\n${said}")
  endif()
  set(instructions_${turns} ${CMAKE_MATCH_1})
endforeach()
math(EXPR each "(${instructions_12000} - ${instructions_2000}) / 20000")
message(STATUS "${KIND}: ${each} instructions a call, at most ${MOST}")
if(each GREATER MOST OR each LESS 20)
  message(FATAL_ERROR "A call takes ${each} instructions, not 20 to ${MOST}.")
endif()
