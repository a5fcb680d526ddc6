# The CUDA toolkit is looked for, never required unless asked for by name. Sets TUTTI_HAVE_CUDA,
# which is ON only when its compiler works, and says which toolkit was found and whether it is used.
# Then how code of the library that uses CUDA is built, and what it is linked with.

set(TUTTI_HAVE_CUDA OFF)
if(TUTTI_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: not looked for (TUTTI_CUDA=OFF)")
elseif(NOT TUTTI_CUDA MATCHES "^(AUTO|ON)$")
  message(FATAL_ERROR "TUTTI_CUDA=${TUTTI_CUDA} is none of AUTO, ON, OFF")
else()
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    # The compiler found with the toolkit, unless the person chose one.
    if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    # Machine code for both, and PTX that newer GPUs compile.
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc has C++20 since 12.0, so it is told.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(TUTTI_HAVE_CUDA ON)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, compiler ${CMAKE_CUDA_COMPILER}")
  elseif(TUTTI_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TUTTI_CUDA=ON, but no CUDA toolkit with a working compiler was found")
  elseif(CUDAToolkit_FOUND)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION} found, but its compiler does not work: "
                   "not used")
  else()
    message(STATUS "CUDA: no toolkit found, not used (TUTTI_CUDA=AUTO)")
  endif()
endif()

# Host code is compiled once, by the C++ compiler, against the toolkit's headers. What a program is
# linked with decides what it runs on: NVIDIA's runtime (static; it looks for the driver when it is
# first called), or the stand-in of tests/emulation, which the property TUTTI_CUDA_RUNTIME of a program
# or shared library names. Folders of the library know nothing of the difference, and neither does
# whoever links them: the expression is evaluated for the program.
if(TUTTI_HAVE_CUDA)
  add_library(tutti_cuda_runtime INTERFACE)
  set(chosen $<TARGET_PROPERTY:TUTTI_CUDA_RUNTIME>)
  target_link_libraries(tutti_cuda_runtime INTERFACE
                        $<IF:$<BOOL:${chosen}>,${chosen},CUDA::cudart_static>)
endif()

# tutti_uses_cuda(LIBRARY): a folder's library calls the CUDA runtime. Only its own sources see the
# toolkit's headers.
function(tutti_uses_cuda library)
  target_include_directories(${library} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${library} PRIVATE tutti_cuda_runtime)
endfunction()

foreach(architecture IN LISTS TUTTI_CUDA_ARCHITECTURES)
  if(NOT architecture MATCHES "^(sm80|sm90)$")
    message(FATAL_ERROR "TUTTI_CUDA_ARCHITECTURES has ${architecture}, which is neither sm80 nor sm90")
  endif()
endforeach()
set(TUTTI_GENCODE_sm80 -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=compute_80)
set(TUTTI_GENCODE_sm90 -gencode=arch=compute_90a,code=sm_90a)
# 20050: an inline that nvcc does not need at __global__, and g++ does.
set(TUTTI_NVCC_OPTIONS -x cu -std=c++20 -O3 -Xptxas -v -Xcompiler -fPIC -diag-suppress 20050 -Werror
    all-warnings -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include)

# tutti_nvcc_object(SOURCE OUT ARCHITECTURE ...): compiles a source, its path relative to the project,
# for sm80 (with PTX that newer GPUs compile) or sm90 or both; OUT is the object. What ptxas said is
# kept beside it, with the seconds that it took: emulation_ptxas reads it. Machine code for one alone is
# not compressed: a test reads it.
function(tutti_nvcc_object source out)
  string(MAKE_C_IDENTIFIER ${source} name)
  string(JOIN _ architectures ${ARGN})
  set(object ${PROJECT_BINARY_DIR}/nvcc/${architectures}_${name}.o)
  set(gencode)
  foreach(architecture IN LISTS ARGN)
    list(APPEND gencode ${TUTTI_GENCODE_${architecture}})
  endforeach()
  if(architectures STREQUAL "sm90")
    list(APPEND gencode --no-compress)
  endif()
  add_custom_command(
    OUTPUT ${object} VERBATIM DEPFILE ${object}.d
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh ${PROJECT_SOURCE_DIR}/${source}
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/nvcc.sh ${object} ${TUTTI_CCACHE} ${CMAKE_CUDA_COMPILER}
            ${TUTTI_NVCC_OPTIONS} ${gencode} -c ${PROJECT_SOURCE_DIR}/${source})
  set(${out} ${object} PARENT_SCOPE)
endfunction()

# tutti_kernels(LIBRARY SOURCES x.cu ... [HOPPER y.cu ...]): kernels of a folder's library and what launches
# them, from sources that nvcc compiles for GPUs, those of HOPPER for compute capability 9.0 alone, and the
# C++ compiler for the emulation where something asks for it. A program gets the ones that go with its runtime.
function(tutti_kernels library)
  cmake_parse_arguments(ARG "" "" "SOURCES;HOPPER" ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
             OUTPUT_VARIABLE folder)
  set(objects)
  foreach(source IN LISTS ARG_SOURCES)
    tutti_nvcc_object(${folder}/${source} object ${TUTTI_CUDA_ARCHITECTURES})
    list(APPEND objects ${object})
  endforeach()
  foreach(source IN LISTS ARG_HOPPER)
    tutti_nvcc_object(${folder}/${source} object sm90)
    list(APPEND objects ${object})
  endforeach()
  add_library(${library}_gpu STATIC ${objects})
  set_target_properties(${library}_gpu PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${library}_gpu PRIVATE tutti_cuda_runtime)
  set_property(GLOBAL APPEND PROPERTY TUTTI_KERNELS ${library})

  set(copies)
  foreach(source IN LISTS ARG_SOURCES ARG_HOPPER)
    set(copy ${CMAKE_CURRENT_BINARY_DIR}/emulated/${source}.cc)
    file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    list(APPEND copies ${copy})
  endforeach()
  add_library(${library}_emulated STATIC EXCLUDE_FROM_ALL ${copies})
  tutti_compile_apart(${library}_emulated)
  tutti_uses_cuda(${library}_emulated)
  target_compile_options(${library}_emulated PRIVATE -Wno-psabi -Wno-unknown-pragmas)

  set(isEmulated $<BOOL:$<TARGET_PROPERTY:TUTTI_CUDA_RUNTIME>>)
  target_link_libraries(${library} PRIVATE $<IF:${isEmulated},${library}_emulated,${library}_gpu>)
endfunction()

# tutti_emulated_twin(PROGRAM): the same objects, linked with the stand-in: build/tests/emulated/PROGRAM,
# made when something asks for the target PROGRAM_emulated. To be called beside the program.
function(tutti_emulated_twin program)
  if(NOT (TUTTI_HAVE_CUDA AND TUTTI_TESTS))
    return()
  endif()
  get_target_property(links ${program} LINK_LIBRARIES)
  add_executable(${program}_emulated EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${program}_emulated PRIVATE ${links})
  tutti_emulate(${program}_emulated ${program})
endfunction()

# Programs of build/tests/emulated and libnccl.so.2 there share one stand-in, a shared library, which
# has to be one for all of a process, as the driver is.
function(tutti_emulate target name)
  set(folder ${PROJECT_BINARY_DIR}/tests/emulated)
  set_target_properties(${target} PROPERTIES
                        OUTPUT_NAME ${name} LINKER_LANGUAGE CXX TUTTI_CUDA_RUNTIME emulated_runtime
                        BUILD_RPATH $ORIGIN BUILD_RPATH_USE_ORIGIN ON RUNTIME_OUTPUT_DIRECTORY ${folder}
                        LIBRARY_OUTPUT_DIRECTORY ${folder})
  if(TUTTI_SANITIZE)
    # The driver's library is opened there by the sanitizer's dlopen(), which looks where the program's
    # RPATH leads, and not at its RUNPATH.
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endif()
endfunction()
