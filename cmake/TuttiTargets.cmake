# How every target of the project is made: one library per folder, one executable per test file.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_package(Threads REQUIRED)

# A second build of the same sources costs seconds. A first one does not preprocess each file twice
# (CCACHE_DEPEND), and what includes a precompiled header is kept too.
find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${TUTTI_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${TUTTI_CCACHE})
endif()

include(TuttiCuda)

# For all targets of this project, and none of a project that embeds it.
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Werror>"
                    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>"
                    # GCC collects its garbage less often: a sixth less time, for 100 MB.
                    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>")
if(TUTTI_SANITIZE STREQUAL "address")
  # GCC 12 sees uninitialised values in its own std::regex when it instruments it. The check of dynamic types
  # needs a pipe, which a test that has used up all descriptors does not get; AddressSanitizer sees most of it,
  # and all of what the checks of null pointers and of objects' sizes see, which take the compiler long.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr,null,object-size -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=address,undefined)
elseif(TUTTI_SANITIZE STREQUAL "thread")
  # With a precompiled header GCC 12 sees writes beyond strings in its own operator+.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer
                      -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  add_link_options(-fsanitize=thread)
elseif(TUTTI_SANITIZE STREQUAL "fuzzer")
  # Clang's: the checks of address, and the marks by which libFuzzer sees what an input reaches.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,null,object-size
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=address,undefined)
elseif(TUTTI_SANITIZE)
  message(FATAL_ERROR "TUTTI_SANITIZE=${TUTTI_SANITIZE} is none of address, thread and fuzzer")
endif()

# tutti_library(NAME SOURCES ... [LINKS ...]): one folder's static library. LINKS are the folders
# below it; the arrows of docs/explanation/architecture.md are exactly these lines.
function(tutti_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC Threads::Threads ${ARG_LINKS})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
             OUTPUT_VARIABLE folder)
  set_target_properties(${name} PROPERTIES TUTTI_FOLDER "${folder}" TUTTI_LINKS "${ARG_LINKS}")
  set_property(GLOBAL APPEND PROPERTY TUTTI_LIBRARIES ${name})
  if(NOT folder MATCHES "^(parallel|src/nccl|src/tools|tests)")
    target_link_libraries(tutti_umbrella INTERFACE ${name})
    set_property(GLOBAL APPEND PROPERTY TUTTI_UMBRELLA ${name})
  endif()
endfunction()

# The libraries' sources read the standard library once, but for those that have another header
# precompiled. A project that embeds them sees that each source includes what it uses.
function(tutti_precompile_standard)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  file(CONFIGURE OUTPUT standard.cc CONTENT "")
  add_library(tutti_standard OBJECT ${CMAKE_CURRENT_BINARY_DIR}/standard.cc)
  target_link_libraries(tutti_standard PRIVATE Threads::Threads)
  target_precompile_headers(
    tutti_standard PRIVATE <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <filesystem>
    <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <thread> <utility>
    <vector>)
  get_property(libraries GLOBAL PROPERTY TUTTI_LIBRARIES)
  foreach(library IN LISTS libraries)
    get_target_property(precompiled ${library} PRECOMPILE_HEADERS)
    get_target_property(reused ${library} PRECOMPILE_HEADERS_REUSE_FROM)
    if(NOT precompiled AND NOT reused)
      target_precompile_headers(${library} REUSE_FROM tutti_standard)
    endif()
  endforeach()
endfunction()

# tutti_compile_apart(NAME [SOURCE...]): these sources of a target, or all, are compiled by themselves also
# where CMAKE_UNITY_BUILD has several compiled as one: what they name for themselves others name so too, or
# a program links one without what others need.
function(tutti_compile_apart name)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  else()
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# tutti_compile_together(NAME GROUP HEADERS): the sources of a target that include one of the headers that
# the regular expression HEADERS matches are compiled as one, because the templates of these headers take
# the compiler longer than all else.
function(tutti_compile_together name group headers)
  get_target_property(sources ${name} SOURCES)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} includes LIMIT_COUNT 1 REGEX "^#include [<\"](${headers})[>\"]")
    if(includes)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# tutti_parses_options(NAME [TOGETHER] [PRECOMPILED TARGET]): of a target that defines command lines with CLI11:
# its sources are not optimized for speed, those that include the header are compiled together, and it is
# read once, or is that of TARGET. The others are compiled without, as what it defines costs seconds even
# where nothing uses it; TOGETHER, where CMAKE_UNITY_BUILD says so. The demo, which is one program, precompiles nothing
# here: two readings cost less.
function(tutti_parses_options name)
  cmake_parse_arguments(ARG "TOGETHER" "PRECOMPILED" "" ${ARGN})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(ARG_TOGETHER AND CMAKE_UNITY_BUILD)
    tutti_compile_together(${name} others ".*")
  endif()
  tutti_compile_together(${name} options "CLI/CLI.hpp|src/tools/common/command_line.h")
  if(CMAKE_BUILD_TYPE STREQUAL "Demo")
    return()
  endif()
  if(ARG_PRECOMPILED AND NOT ARG_PRECOMPILED STREQUAL name)
    target_precompile_headers(${name} REUSE_FROM ${ARG_PRECOMPILED})
  else()
    target_precompile_headers(${name} PRIVATE <CLI/CLI.hpp>)
  endif()
  get_target_property(sources ${name} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(group ${source} UNITY_GROUP)
    if(NOT group STREQUAL "options")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# How GoogleTest's output ends where every test was skipped, and nothing has failed: it exits with 0
# then. As the end, and with nothing behind it, so that a crash after it is no skip.
set(TUTTI_ALL_SKIPPED "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")

# By how much longer tests may take.
set(TUTTI_SLOWDOWN 1)
if(TUTTI_SANITIZE)
  set(TUTTI_SLOWDOWN 5)
endif()

# tutti_test(NAME SOURCES ... [LINKS ...] [LABELS ...] [TIMEOUT s] [PROCESSORS n] [EMULATED]
# [ARGS ...] [THOROUGH FILTERS...]): a GoogleTest executable that ctest runs as one test; skipped where all of
# its tests skip. THOROUGH: those are left to another test, NAME_thorough.
# Of label long it is built with the target long_tests only, of label thorough with thorough_tests.
# EMULATED: what it links of the library runs on emulated GPUs.
function(tutti_test name)
  cmake_parse_arguments(ARG "EMULATED" "TIMEOUT;PROCESSORS" "SOURCES;LINKS;LABELS;ARGS;THOROUGH" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tutti_test_main)
  if(NOT ARG_LINKS MATCHES "emulation_(address|thread)")
    set(precompiled tutti_gtest)
    if("nlohmann_json::nlohmann_json" IN_LIST ARG_LINKS)
      set(precompiled tutti_gtest_json)
    endif()
    target_precompile_headers(${name} REUSE_FROM ${precompiled})
  endif()
  set(tests ${name})
  if(ARG_THOROUGH)
    list(JOIN ARG_THOROUGH : filter)
    add_test(NAME ${name}_thorough COMMAND ${name} --gtest_filter=${filter} ${ARG_ARGS})
    list(APPEND tests ${name}_thorough)
    list(PREPEND ARG_ARGS --gtest_filter=-${filter})
  endif()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${TUTTI_SLOWDOWN} * ${ARG_TIMEOUT}")
  if(name IN_LIST TUTTI_SANITIZER_SUBSET)
    list(APPEND ARG_LABELS sanitizer-subset)
    add_dependencies(sanitizer_subset ${name})
  endif()
  if("long" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(long_tests ${name})
  elseif("thorough" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(thorough_tests ${name})
  elseif(ARG_LABELS MATCHES "emulated|kernels")
    add_dependencies(emulated_tests ${name})
  endif()
  set_tests_properties(${tests} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       SKIP_REGULAR_EXPRESSION "${TUTTI_ALL_SKIPPED}")
  if(ARG_THOROUGH)
    list(REMOVE_ITEM ARG_LABELS emulated kernels sanitizer-subset)
    set_tests_properties(${name}_thorough PROPERTIES LABELS "${ARG_LABELS};thorough")
  endif()
  # UCX patches libc's memory functions where it starts a thread that ThreadSanitizer does not know yet.
  if(TUTTI_SANITIZE STREQUAL "thread")
    set_tests_properties(${tests} PROPERTIES ENVIRONMENT_MODIFICATION UCX_MEM_EVENTS=set:n)
  endif()
  if(ARG_EMULATED)
    set_target_properties(${name} PROPERTIES TUTTI_CUDA_RUNTIME emulation)
    target_link_libraries(${name} PRIVATE emulation)
  endif()
  if(ARG_PROCESSORS)
    set_tests_properties(${tests} PROPERTIES PROCESSORS ${ARG_PROCESSORS})
  endif()
endfunction()

# tutti_absent(NAME WHAT WHY LABELS...): in the place of tests that cannot be built here one that is skipped, and
# says so.
function(tutti_absent name what why)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${what}: ${why}")
  set_tests_properties(${name} PROPERTIES LABELS "${ARGN}" SKIP_REGULAR_EXPRESSION "SKIPPED:")
endfunction()
