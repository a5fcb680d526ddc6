# memory_speed checks and measures every kernel of its list, also of rows that are fewer than its content repeats
# after, and with ragged widths.

set(kernels add "cast to bfloat16" "bias gradient" gelu "swiglu backward" "layer norm of a sum"
            "layer norm backward" "layer norm gradients" "rms norm of a sum" "rms norm weights" "rms norm gradients" rotary embedding "embedding gradient"
            "embedding with positions" "attention merge" "attention dots" "sum of splits" "loss of a whole vocabulary" "logit statistics" cross-entropy "logit statistics of a part"
            "cross-entropy of a part" route "router gradient" "count choices" "place tokens" "spread rows"
            "combine rows" "row dots" adamw "adamw of many" "adamw of many with copies" "sgd of many" "sgd of many without velocity"
            "cast of many to bfloat16" "sum of squares" "sum of squares of many"
            "loss of a whole vocabulary, the kernel" "logit statistics of a part, the kernel" "cross-entropy of a part, the kernel"
            "router gradient, its two kernels" "sum of squares, the kernel" "sum of squares of many, the kernel")
foreach(sizes "80;64;16;100" "7;40;7;33" "48;256;12;1001")
  list(GET sizes 0 rows)
  list(GET sizes 1 width)
  list(GET sizes 2 context)
  list(GET sizes 3 vocabulary)
  execute_process(COMMAND ${PROGRAM} --turns 1 --copy 0.01 --rows ${rows} --width ${width} --context ${context}
                          --vocabulary ${vocabulary}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT said MATCHES "geometric mean [0-9.]+ over 53, worst " OR
     NOT said MATCHES "a launch of a kernel that has nothing to do: [0-9.]*[1-9][0-9.]* us")
    message(FATAL_ERROR "${sizes}: memory_speed ended with ${status}: ${said}")
  endif()
  foreach(kernel IN LISTS kernels)
    if(NOT said MATCHES "[|] ${kernel} [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|]")
      message(FATAL_ERROR "${sizes}: ${kernel} was not measured: ${said}")
    endif()
  endforeach()
endforeach()
# A row of the table counts once: 2,496 of 4,000 rows of 256 bytes are read, and 4,000 are written.
execute_process(COMMAND ${PROGRAM} --turns 1 --copy 0.01 --rows 16 --width 128 --context 4000 --vocabulary 4000
                OUTPUT_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT said MATCHES "[|] embedding [|] 1[.]7 [|]" OR
   NOT said MATCHES "[|] embedding with positions [|] 2[.]7 [|]")
  message(FATAL_ERROR "an embedding's bytes, status ${status}: ${said}")
endif()
# Content repeats after 16 rows.
execute_process(COMMAND ${PROGRAM} --rows 24 OUTPUT_QUIET ERROR_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 1 OR NOT said MATCHES "--rows 24 is neither below 16 nor a multiple of it")
  message(FATAL_ERROR "memory_speed --rows 24 ended with ${status}: ${said}")
endif()
foreach(wrong 8 --rows --fast "--rows;0")
  execute_process(COMMAND ${PROGRAM} ${wrong} OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "memory_speed ${wrong} ended with ${status}")
  endif()
endforeach()
