# gemm_speed measures what it is told to, against a library in the place of cuBLAS or none, says what there was no
# time for, and fails where a product is wrong.

set(products 40x72x64:forward 33x40x70:dgrad 64x24x100:wgrad 65x33x7:forward)
set(batches 3*40x72x64:forward 2*33x40x70:dgrad 4*64x24x100:wgrad 2*9x13x16:forward)
set(epilogues 40x72x64:gelu 33x40x64:dgelu 64x24x100:swiglu 40x16x64:dswiglu 65x32x70:residual)
execute_process(COMMAND ${PROGRAM} --turns 1 --cublas ${CUBLAS} ${products} ${batches} ${epilogues} OUTPUT_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT said MATCHES "cuBLAS 1[.]2[.]3")
  message(FATAL_ERROR "gemm_speed ended with ${status}: ${said}")
endif()
foreach(product IN LISTS products batches epilogues)
  string(REPLACE "*" "[*]" pattern ${product})
  if(NOT said MATCHES "[|] ${pattern} [|] [0-9.]+ [|] [0-9.]+ [|] [0-9.]+ [|]")
    message(FATAL_ERROR "${product} was not compared: ${said}")
  endif()
endforeach()
if(NOT said MATCHES "geometric mean [0-9.]+ over 4, worst [0-9.]+ of [0-9]+x" OR
   NOT said MATCHES "batches, [^\n]*geometric mean [0-9.]+ over 4, worst [0-9.]+ of [0-9]+[*]" OR
   NOT said MATCHES "epilogue, [^\n]*geometric mean [0-9.]+ over 5, worst [0-9.]+ of [0-9]+x")
  message(FATAL_ERROR "there is no sum of it: ${said}")
endif()

# The stand-in leaves out the last of more than 100 rows.
execute_process(COMMAND ${PROGRAM} --turns 1 --cublas ${CUBLAS} 120x16x16:forward ERROR_VARIABLE said
                OUTPUT_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 1 OR NOT said MATCHES "120x16x16:forward of cuBLAS: element 119, 15 is ")
  message(FATAL_ERROR "a wrong product passed with ${status}: ${said}")
endif()

# And of more than 4 products the last.
execute_process(COMMAND ${PROGRAM} --turns 1 --cublas ${CUBLAS} 5*16x16x16:forward ERROR_VARIABLE said
                OUTPUT_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 1 OR NOT said MATCHES "5[*]16x16x16:forward of cuBLAS: element 15, 15 is ")
  message(FATAL_ERROR "a wrong batch passed with ${status}: ${said}")
endif()

execute_process(COMMAND ${PROGRAM} --seconds 0.001 --cublas ${CUBLAS} 8x8x8:forward OUTPUT_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT said MATCHES "products from 8x8x8:forward on: not measured: no time left, 1 of 1")
  message(FATAL_ERROR "what was left out is not said: ${said}")
endif()
foreach(wrong 40x72:forward 0x8x8:dgrad 0*8x8x8:forward x*8x8x8:forward 3x*8x8x8:forward 2*8x8x8:gelu 8x8x8:back 8x12x8:gelu --turns --fast "--cublas;/nowhere.so")
  execute_process(COMMAND ${PROGRAM} ${wrong} OUTPUT_QUIET ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "gemm_speed ${wrong} ended with ${status}: ${said}")
  endif()
endforeach()
