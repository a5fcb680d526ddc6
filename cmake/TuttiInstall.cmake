# What `cmake --install` puts into a prefix, by component:
#   runtime      libtutti.so: all folders below parallel/ in one library, which shows include/tutti alone
#   training     libtutti_parallel.so: the folders of parallel/, over libtutti.so
#   nccl         libnccl.so.2 with all of Tutti inside, in a folder where no program finds it by itself
#   tools        the tutti command with its other names, topologies (src/tools), train_gpt, generate, tokenize, manual
#                pages and completions of shells
#   development  headers, links of the libraries, a CMake package (tutti::tutti, tutti::parallel, tutti::nccl),
#                pkg-config files, licence, pages and examples
#   emulation    what `tutti emulate` needs; only for whoever asks for it
# cmake/TuttiPackages.cmake makes packages of the first five.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TUTTI_NCCL_LIBDIR ${CMAKE_INSTALL_LIBDIR}/tutti-nccl)
set(TUTTI_INSTALLED_DOCS ${CMAKE_INSTALL_DATADIR}/doc/tutti)

# All that is installed but the emulation, without the tests and the benchmarks.
add_custom_target(installable)

# tutti_installs(COMPONENT TARGET FILE...): the target makes these files, which the component installs.
function(tutti_installs component target)
  add_dependencies(installable ${target})
  foreach(file IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY TUTTI_INSTALLED "${component}|${target}|${file}")
  endforeach()
endfunction()

# Before the first file is installed, and whichever component is: all that it needs is built.
install(SCRIPT ${PROJECT_BINARY_DIR}/require-built-$<CONFIG>.cmake ALL_COMPONENTS)
function(tutti_require_built)
  get_property(files GLOBAL PROPERTY TUTTI_INSTALLED)
  file(READ ${PROJECT_SOURCE_DIR}/cmake/require-built.cmake.in script)
  string(CONFIGURE "${script}" script @ONLY)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/require-built-$<CONFIG>.cmake CONTENT "${script}")
endfunction()

# A shared library of folders' objects that shows what cmake/NAME.map names. Of CUDA it has NVIDIA's
# runtime inside, and the kernels, unless it is for the emulation: tutti_emulate() comes after it.
function(tutti_shared_library target name)
  set(objects)
  set(isEmulated $<BOOL:$<TARGET_PROPERTY:TUTTI_CUDA_RUNTIME>>)
  foreach(folder IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
  endforeach()
  add_library(${target} SHARED ${objects})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/${name}.map)
  target_link_libraries(${target} PUBLIC Threads::Threads)
  get_property(kernels GLOBAL PROPERTY TUTTI_KERNELS)
  foreach(library IN LISTS kernels)
    target_link_libraries(${target} PRIVATE $<IF:${isEmulated},${library}_emulated,${library}_gpu>)
  endforeach()
  if(TUTTI_HAVE_CUDA)
    target_link_libraries(${target} PRIVATE tutti_cuda_runtime)
  endif()
  target_link_options(${target} PRIVATE LINKER:--version-script=${exports}
                      $<$<STREQUAL:${TUTTI_SANITIZE},>:LINKER:-z,defs>)
  set_target_properties(
    ${target} PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME ${name} EXPORT_NAME ${name} LINK_DEPENDS ${exports}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

# What the folders below parallel/ need.
function(tutti_link_core target)
  target_link_libraries(${target} PRIVATE PkgConfig::sodium PkgConfig::crypto PkgConfig::hwloc)
endfunction()

# The manual pages and the completions of shells, from what the commands say of themselves: a new command or
# flag has them by itself.
function(tutti_made_of_help)
  set(programs ${TUTTI_NCCL_PERF_PROGRAMS} ${TUTTI_TRAINING_PROGRAMS})
  set(folder ${PROJECT_BINARY_DIR}/man)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/man/*
       ${PROJECT_SOURCE_DIR}/docs/man/*)
  add_custom_command(
    OUTPUT ${folder}/made VERBATIM
    DEPENDS tutti ${TUTTI_TRAINING_PROGRAMS} ${sources} ${PROJECT_SOURCE_DIR}/docs/reference/environment.md
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/man/make.sh $<TARGET_FILE:tutti> ${PROJECT_SOURCE_DIR}
            ${folder} ${PROJECT_VERSION} ${programs}
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}/made)
  add_custom_target(man_pages ALL DEPENDS ${folder}/made)
  tutti_installs(tools man_pages ${folder}/made)
  install(DIRECTORY ${folder}/man1 ${folder}/man7 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)

  set(folder ${PROJECT_BINARY_DIR}/completions)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/completions/*)
  add_custom_command(
    OUTPUT ${folder}/made VERBATIM DEPENDS tutti ${TUTTI_TRAINING_PROGRAMS} ${sources}
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/completions/make.sh $<TARGET_FILE:tutti> ${folder} ${programs}
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}/made)
  add_custom_target(completions ALL DEPENDS ${folder}/made)
  tutti_installs(tools completions ${folder}/made)
  install(DIRECTORY ${folder}/bash-completion ${folder}/zsh ${folder}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}
          COMPONENT tools)
endfunction()

# The emulation: three libraries of tests/emulated in a folder where no program finds them by itself. Whoever
# installs all does not get them. In the build tree they are where `tutti emulate` looks for them too.
function(tutti_install_emulation)
  add_custom_target(emulation_component ALL)
  add_dependencies(emulation_component emulated_runtime emulated_driver tutti_nccl_emulated)
  install(FILES $<TARGET_FILE:emulated_runtime> $<TARGET_FILE:emulated_driver>
                $<TARGET_SONAME_FILE:tutti_nccl_emulated>
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti/emulation COMPONENT emulation EXCLUDE_FROM_ALL)
  foreach(target emulated_runtime emulated_driver tutti_nccl_emulated)
    set_property(GLOBAL APPEND PROPERTY TUTTI_INSTALLED "emulation|emulation_component|$<TARGET_FILE:${target}>")
  endforeach()
  file(RELATIVE_PATH fromProgram ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/tutti)
  file(MAKE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${fromProgram})
  file(CREATE_LINK ${PROJECT_BINARY_DIR}/tests/emulated
       ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${fromProgram}/emulation SYMBOLIC)
endfunction()

# The three libraries.
function(tutti_shared_libraries)
  get_property(folders GLOBAL PROPERTY TUTTI_UMBRELLA)
  set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  tutti_shared_library(tutti_shared tutti ${folders})
  tutti_link_core(tutti_shared)
  target_compile_features(tutti_shared INTERFACE cxx_std_20)
  set_target_properties(tutti_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion})

  # Both libraries lie in one folder, wherever that is moved.
  get_property(libraries GLOBAL PROPERTY TUTTI_LIBRARIES)
  list(FILTER libraries INCLUDE REGEX "^tutti_parallel_")
  list(REMOVE_ITEM libraries tutti_parallel_samples)
  tutti_shared_library(tutti_parallel_shared tutti_parallel ${libraries})
  target_link_libraries(tutti_parallel_shared PUBLIC tutti_shared PRIVATE PkgConfig::openblas PkgConfig::pcre2)
  set_target_properties(tutti_parallel_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
                        EXPORT_NAME parallel INSTALL_RPATH $ORIGIN)

  # Its threads may outlast whoever unloads it, so it stays loaded.
  tutti_shared_library(tutti_nccl_shared nccl ${folders} tutti_nccl)
  tutti_link_core(tutti_nccl_shared)
  target_link_options(tutti_nccl_shared PRIVATE LINKER:-z,nodelete)
  target_include_directories(
    tutti_nccl_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/tutti-nccl>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tutti-nccl>)
  set_target_properties(tutti_nccl_shared PROPERTIES VERSION 2.32.3 SOVERSION 2)
  add_library(tutti::nccl ALIAS tutti_nccl_shared)
  if(TUTTI_HAVE_CUDA AND TUTTI_TESTS)
    tutti_shared_library(tutti_nccl_emulated nccl ${folders} tutti_nccl)
    tutti_link_core(tutti_nccl_emulated)
    set_target_properties(tutti_nccl_emulated PROPERTIES EXCLUDE_FROM_ALL ON SOVERSION 2)
    tutti_emulate(tutti_nccl_emulated nccl)
    tutti_install_emulation()
  endif()
endfunction()

# The public headers. Those of parallel/ include each other by paths from the root; installed they lie in
# tutti/parallel, and say so. Headers that need other libraries' headers stay inside.
function(tutti_install_headers)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti ${PROJECT_SOURCE_DIR}/include/tutti-nccl
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  file(READ ${PROJECT_SOURCE_DIR}/cmake/install-parallel-headers.cmake.in script)
  string(CONFIGURE "${script}" script @ONLY)
  install(CODE "${script}" COMPONENT development)
endfunction()

# The licence, the pages as they are, and the examples, in the places that they have in the sources.
function(tutti_install_docs)
  foreach(file LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md)
    install(FILES ${PROJECT_SOURCE_DIR}/${file} DESTINATION ${TUTTI_INSTALLED_DOCS} COMPONENT development)
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${TUTTI_INSTALLED_DOCS} USE_SOURCE_PERMISSIONS COMPONENT development
          PATTERN docs/site EXCLUDE PATTERN docs/man EXCLUDE PATTERN docs/stylesheets EXCLUDE)
endfunction()

# To be called after the last tutti_library().
function(tutti_install)
  tutti_shared_libraries()
  foreach(pair "runtime|tutti_shared|${CMAKE_INSTALL_LIBDIR}"
               "training|tutti_parallel_shared|${CMAKE_INSTALL_LIBDIR}"
               "nccl|tutti_nccl_shared|${TUTTI_NCCL_LIBDIR}")
    string(REPLACE "|" ";" pair "${pair}")
    list(GET pair 0 component)
    list(GET pair 1 target)
    list(GET pair 2 folder)
    install(TARGETS ${target} EXPORT tutti
            LIBRARY DESTINATION ${folder} COMPONENT ${component} NAMELINK_COMPONENT development
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    tutti_installs(${component} ${target} $<TARGET_FILE:${target}>)
    set_property(GLOBAL APPEND PROPERTY TUTTI_INSTALLED "development|${target}|$<TARGET_LINKER_FILE:${target}>")
  endforeach()

  foreach(target tutti ${TUTTI_TRAINING_PROGRAMS})
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    tutti_installs(tools ${target} $<TARGET_FILE:${target}>)
  endforeach()
  foreach(program IN LISTS TUTTI_NCCL_PERF_PROGRAMS)
    install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endforeach()
  tutti_made_of_help()
  tutti_install_headers()
  tutti_install_docs()

  # In a folder where find_package() does not look: the build tree is no package.
  set(files ${PROJECT_BINARY_DIR}/installed-files)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  install(EXPORT tutti NAMESPACE tutti:: DESTINATION ${package} FILE tuttiTargets.cmake COMPONENT development)
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/tuttiConfig.cmake.in ${files}/tuttiConfig.cmake
    INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${files}/tuttiConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${files}/tuttiConfig.cmake ${files}/tuttiConfigVersion.cmake
          DESTINATION ${package} COMPONENT development)
  foreach(file tutti tutti-parallel tutti-nccl)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.pc.in ${files}/${file}.pc @ONLY)
    install(FILES ${files}/${file}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
            COMPONENT development)
  endforeach()
  tutti_require_built()
endfunction()
