# What `cmake --install` puts into a prefix: one shared library of all folders below parallel/, the
# public headers, the tutti command with its other names and manual pages (and its topologies: src/tools), a CMake package
# (tutti::tutti) and a pkg-config file. Only the public interface is exported from the library. And
# libnccl.so.2, which has all of that inside and exports NCCL's C API alone, with its header in a
# folder of its own (tutti::nccl).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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
  target_link_libraries(${target} PUBLIC Threads::Threads PRIVATE PkgConfig::sodium PkgConfig::crypto
                        PkgConfig::hwloc)
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

# The manual pages, from what the commands say of themselves: a new command has one by itself.
function(tutti_man_pages)
  set(folder ${PROJECT_BINARY_DIR}/man)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/man/*
       ${PROJECT_SOURCE_DIR}/docs/man/*)
  add_custom_command(
    OUTPUT ${folder}/made VERBATIM
    DEPENDS tutti ${sources} ${PROJECT_SOURCE_DIR}/docs/reference/environment.md
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/man/make.sh $<TARGET_FILE:tutti> ${PROJECT_SOURCE_DIR}
            ${folder} ${PROJECT_VERSION} ${TUTTI_NCCL_PERF_PROGRAMS}
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}/made)
  add_custom_target(man_pages ALL DEPENDS ${folder}/made)
  install(DIRECTORY ${folder}/man1 ${folder}/man7 DESTINATION ${CMAKE_INSTALL_MANDIR})
endfunction()

# The emulation as a component of its own, for `tutti emulate`: three libraries of tests/emulated in a folder
# where no program finds them by itself. Whoever installs all does not get them. In the build tree they are
# where `tutti emulate` looks for them too.
function(tutti_install_emulation)
  add_custom_target(emulation_component)
  add_dependencies(emulation_component emulated_runtime emulated_driver tutti_nccl_emulated)
  install(FILES $<TARGET_FILE:emulated_runtime> $<TARGET_FILE:emulated_driver>
                $<TARGET_SONAME_FILE:tutti_nccl_emulated>
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti/emulation COMPONENT emulation EXCLUDE_FROM_ALL)
  file(RELATIVE_PATH fromProgram ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/tutti)
  file(MAKE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${fromProgram})
  file(CREATE_LINK ${PROJECT_BINARY_DIR}/tests/emulated
       ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${fromProgram}/emulation SYMBOLIC)
endfunction()

# To be called after the last tutti_library().
function(tutti_install)
  get_property(folders GLOBAL PROPERTY TUTTI_UMBRELLA)
  tutti_shared_library(tutti_shared tutti ${folders})
  target_include_directories(tutti_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(tutti_shared INTERFACE cxx_std_20)
  set_target_properties(
    tutti_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

  # Its threads may outlast whoever unloads it, so it stays loaded.
  tutti_shared_library(tutti_nccl_shared nccl ${folders} tutti_nccl)
  target_link_options(tutti_nccl_shared PRIVATE LINKER:-z,nodelete)
  target_include_directories(
    tutti_nccl_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/tutti-nccl>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tutti-nccl>)
  set_target_properties(tutti_nccl_shared PROPERTIES VERSION 2.32.3 SOVERSION 2)
  add_library(tutti::nccl ALIAS tutti_nccl_shared)
  if(TUTTI_HAVE_CUDA AND TUTTI_TESTS)
    tutti_shared_library(tutti_nccl_emulated nccl ${folders} tutti_nccl)
    set_target_properties(tutti_nccl_emulated PROPERTIES EXCLUDE_FROM_ALL ON SOVERSION 2)
    tutti_emulate(tutti_nccl_emulated nccl)
    tutti_install_emulation()
  endif()

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  install(TARGETS tutti_shared tutti_nccl_shared EXPORT tutti
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(program IN LISTS TUTTI_NCCL_PERF_PROGRAMS)
    install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program} DESTINATION ${CMAKE_INSTALL_BINDIR})
  endforeach()
  tutti_man_pages()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti ${PROJECT_SOURCE_DIR}/include/tutti-nccl
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tutti NAMESPACE tutti:: DESTINATION ${package} FILE tuttiTargets.cmake)
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/tuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/tuttiConfig.cmake
    INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake
                ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake DESTINATION ${package})
  foreach(file tutti tutti-nccl)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.pc.in ${PROJECT_BINARY_DIR}/${file}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${file}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endfunction()
