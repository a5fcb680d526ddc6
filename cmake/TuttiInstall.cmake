# What `cmake --install` puts into a prefix: one shared library of all folders below parallel/, the
# public headers, the tutti command, a CMake package (tutti::tutti) and a pkg-config file. Only the
# public interface is exported from the library.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# To be called after the last tutti_library().
function(tutti_install)
  get_property(folders GLOBAL PROPERTY TUTTI_UMBRELLA)
  set(objects)
  foreach(folder IN LISTS folders)
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
  endforeach()
  add_library(tutti_shared SHARED ${objects})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/tutti.map)
  target_link_libraries(tutti_shared PUBLIC Threads::Threads PRIVATE PkgConfig::sodium PkgConfig::hwloc)
  target_link_options(tutti_shared PRIVATE LINKER:--version-script=${exports}
                      $<$<STREQUAL:${TUTTI_SANITIZE},>:LINKER:-z,defs>)
  target_include_directories(tutti_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(tutti_shared INTERFACE cxx_std_20)
  set_target_properties(
    tutti_shared PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME tutti EXPORT_NAME tutti LINK_DEPENDS ${exports}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  install(TARGETS tutti_shared EXPORT tutti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tutti NAMESPACE tutti:: DESTINATION ${package} FILE tuttiTargets.cmake)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tuttiConfig.cmake CONTENT
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\${CMAKE_CURRENT_LIST_DIR}/tuttiTargets.cmake)
" @ONLY)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake
                ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake DESTINATION ${package})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
