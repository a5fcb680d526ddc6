# tune_gemm times every tile that a product allows, and writes a line for each product, which kernels read.

execute_process(COMMAND ${PROGRAM} --repeats 1 --out ${FILE} 40x72x600:nt 65x33x70:tn 40x50x600:nn:float32
                        72x40x600:tn:gradient
                OUTPUT_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "tune_gemm ended with ${status}: ${said}")
endif()
foreach(tile wgmma,together,columns=256,cluster=2,splits=2 wgmma,turns,columns=128,cluster=1,splits=1
             mma,splits=2 tf32,splits=1 columns=128,splits=3)
  if(NOT said MATCHES "${tile} +[0-9.]+ ms")
    message(FATAL_ERROR "${tile} was not timed: ${said}")
  endif()
endforeach()
file(READ ${FILE} table)
foreach(line "40 72 600 nt 16 (wgmma|mma)," "65 33 70 tn 16 (wgmma|mma)," "40 50 600 nn 32 columns=128,splits="
             "72 40 600 tn 16to32 (wgmma|mma),")
  if(NOT table MATCHES "\n${line}[^\n]*  # [0-9.e-]+ ms\n")
    message(FATAL_ERROR "no line \"${line}\" in ${FILE}: ${table}")
  endif()
endforeach()

# Kernels read it, and refuse it where it is spoilt.
set(ENV{TUTTI_GEMM_TABLE} ${FILE})
execute_process(COMMAND ${TEST} --gtest_filter=*Environment* OUTPUT_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "kernels do not read ${FILE}")
endif()
file(APPEND ${FILE} "1 2 3 fast\n")
execute_process(COMMAND ${TEST} --gtest_filter=*Environment* OUTPUT_VARIABLE said RESULT_VARIABLE status)
if(status EQUAL 0 OR NOT said MATCHES "${FILE}:6: \"1 2 3 fast\"")
  message(FATAL_ERROR "kernels read a spoilt table: ${said}")
endif()
foreach(wrong 40x72:nt 40x72x0:nt 40x72x8:xy 40x72x8:tn:wide --repeats --fast)
  execute_process(COMMAND ${PROGRAM} ${wrong} ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 1)
    message(FATAL_ERROR "tune_gemm ${wrong} ended with ${status}: ${said}")
  endif()
endforeach()
