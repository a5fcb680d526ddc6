# One test of tests/install: WAY is package, pkgconfig or embedded.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "${command}\n${output}\nended with ${result}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
set(command ${BUILD}/bin/tutti)
if(NOT WAY STREQUAL "embedded")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/elsewhere)
  file(RENAME ${FOLDER}/elsewhere ${FOLDER}/prefix)
  set(command ${FOLDER}/prefix/bin/tutti)
endif()

# NCCL's header is for those who ask for it alone.
if(NOT WAY STREQUAL "embedded" AND EXISTS ${FOLDER}/prefix/include/nccl.h)
  message(FATAL_ERROR "nccl.h lies where everybody sees it")
endif()

# Every free function and every class of the public headers is in the library.
if(WAY STREQUAL "package")
  run(nm -DC --defined-only ${FOLDER}/prefix/${LIBDIR}/libtutti.so)
  file(GLOB headers ${FOLDER}/prefix/include/tutti/*.h)
  set(names 0)
  foreach(header IN LISTS headers)
    file(STRINGS ${header} lines REGEX "^([a-zA-Z].* [a-zA-Z]+\\(.*;|class [A-Z][A-Za-z]* {)")
    foreach(line IN LISTS lines)
      string(REGEX MATCH "([A-Za-z]+)(\\(.*| {)$" matched "${line}")
      set(name "tutti::${CMAKE_MATCH_1}")
      math(EXPR names "${names} + 1")
      if(NOT output MATCHES "${name}(\\(|::)")
        message(FATAL_ERROR "${header} has ${name}, which libtutti.so does not export: see "
                            "cmake/tutti.map")
      endif()
    endforeach()
  endforeach()
  if(names LESS 10)
    message(FATAL_ERROR "only ${names} names were found in the headers")
  endif()
endif()

if(WAY STREQUAL "pkgconfig")
  set(ENV{PKG_CONFIG_PATH} ${FOLDER}/prefix/${LIBDIR}/pkgconfig)
  run(pkg-config --cflags --libs tutti)
  separate_arguments(output UNIX_COMMAND "${output}")
  run(${CXX} -std=c++20 -Wall -Werror ${OUTSIDE}/main.cc -o ${FOLDER}/outside ${output}
      -Wl,-rpath,${FOLDER}/prefix/${LIBDIR})
  set(program ${FOLDER}/outside)
  run(pkg-config --cflags --libs tutti-nccl)
  separate_arguments(output UNIX_COMMAND "${output}")
  run(${CC} ${OUTSIDE}/nccl.c -o ${FOLDER}/outside_nccl ${output})
  # Found at run time as somebody who replaces NVIDIA's library does it.
  set(ncclProgram ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${FOLDER}/prefix/${LIBDIR}
      ${FOLDER}/outside_nccl)
else()
  run(${CMAKE_COMMAND} -S ${OUTSIDE} -B ${FOLDER}/build -G Ninja -D CMAKE_CXX_COMPILER=${CXX}
      -D CMAKE_BUILD_TYPE=Release -D WAY=${WAY} -D TUTTI_SOURCE=${SOURCE} -D TUTTI_CUDA=OFF
      -D CMAKE_PREFIX_PATH=${FOLDER}/prefix)
  set(targets outside outside_nccl)
  if(WAY STREQUAL "embedded")
    list(APPEND targets outside_training)
  endif()
  run(${CMAKE_COMMAND} --build ${FOLDER}/build --target ${targets})
  set(program ${FOLDER}/build/outside)
  set(ncclProgram ${FOLDER}/build/outside_nccl)
endif()

run(${command} run -n 3 -- ${program})
string(REGEX MATCHALL "sum 6 of 3 ranks, float32" sums "${output}")
list(LENGTH sums count)
if(NOT count EQUAL 3)
  message(FATAL_ERROR "three ranks should say that the sum is 6:\n${output}")
endif()

run(${ncclProgram})
if(NOT output STREQUAL "NCCL 22809: sum 6\n")
  message(FATAL_ERROR "the NCCL program should say that the sum is 6:\n${output}")
endif()

if(WAY STREQUAL "embedded")
  run(${FOLDER}/build/outside_training)
  if(NOT output MATCHES "^the loss fell\n$")
    message(FATAL_ERROR "the training program should say that the loss fell:\n${output}")
  endif()
endif()
