# bench/gpu/run.sh measures all that can be measured on the emulation, reports each part and what is not covered, and
# says which parts it lacks: SCRIPT, BUILD and OUT, where its reports go.
function(report where status)
  execute_process(COMMAND ${SCRIPT} --emulated --only speed --seconds 240 --build ${BUILD} --out ${where} ${ARGN}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE ended)
  file(READ ${where}/report.md text)
  if(NOT ended EQUAL ${status} OR text STREQUAL "")
    message(FATAL_ERROR "run.sh ended with ${ended} and not ${status}:\n${said}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()

report(${OUT} 0)
foreach(line "2 ranks on one GPU: AllReduce of 64K in [0-9.]+ us" "8 ranks on one GPU: AllReduce of 64K in [0-9.]+ us"
             "\n[|] all_reduce [|] [0-9.]+ [|]  [|] [0-9.]+ [|]  [|]\n" "\n[|] scatter [|] [0-9.]+ [|]  [|] [0-9.]+ [|]  [|]\n"
             "[|] all_reduce [|] 8 [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|]" "[|] sendrecv [|] 4096 [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|]"
             "40x72x64:forward [|] [0-9]" "40x72x64:gelu [|] [0-9]" "with an epilogue, [^\n]* over 1, worst" "1x2x64x70:causal" "blocks that stay.*1x2x64x71:causal" "192 queries.*1x2x64x200:causal" "cross-entropy|crossEntropy" "tokens/s"
             "device-to-device copy: no GPU" "Checks that failed: 0")
  if(NOT text MATCHES "${line}")
    message(FATAL_ERROR "the report lacks ${line}:\n${text}")
  endif()
endforeach()
if(text MATCHES "failed[*]")
  message(FATAL_ERROR "a part has failed:\n${text}")
endif()
