# A build folder where nothing is built: an installation says what is missing and how it is made, and leaves
# nothing behind.

file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/build -G Ninja -D CMAKE_CXX_COMPILER=${CXX}
                        -D CMAKE_C_COMPILER=${CC} -D TUTTI_CUDA=OFF -D TUTTI_TESTS=OFF -D TUTTI_BENCH=OFF
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "configuring failed:\n${output}")
endif()

# expect_missing(TARGETS ARGUMENTS...): these are what is to be built, and no others.
function(expect_missing targets)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${FOLDER}/build --prefix ${FOLDER}/prefix ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(result EQUAL 0 OR NOT output MATCHES "nothing was installed, as these files are not built: ${FOLDER}/build"
     OR NOT output MATCHES "Build them first: cmake --build ${FOLDER}/build --target ${targets} ")
    message(FATAL_ERROR "this should name ${targets}, and ended with ${result}:\n${output}")
  endif()
  if(EXISTS ${FOLDER}/prefix)
    message(FATAL_ERROR "a part was installed in ${FOLDER}/prefix")
  endif()
endfunction()
expect_missing("tutti_shared tutti_parallel_shared tutti_nccl_shared tutti train_gpt generate tokenize man_pages completions")
expect_missing("tutti_shared" --component runtime)
expect_missing("tutti train_gpt generate tokenize man_pages completions" --component tools)
