# Packages of what is installed (cmake/TuttiInstall.cmake), in packages/ of the build folder: Debian's by `cpack -G DEB`,
# one for each component and one more with its debug symbols (-dbgsym), and a tarball that may be unpacked anywhere by
# `cpack -G TGZ`. Neither builds anything. `make package` makes all, from a build with line numbers.

set(TUTTI_PACKAGE_CONTACT "Tutti maintainers <tutti@example.org>" CACHE STRING
    "Who answers for the packages: a name and an address for mail")
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_VENDOR Tutti)
set(CPACK_PACKAGE_CONTACT ${TUTTI_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/packages/generator.cmake)

# What has kernels is another version than what has none.
set(version ${PROJECT_VERSION})
if(TUTTI_HAVE_CUDA)
  string(APPEND version +cuda${CUDAToolkit_VERSION_MAJOR})
endif()
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_PACKAGE_FILE_NAME tutti-${version}-linux-${CMAKE_SYSTEM_PROCESSOR})

# The packages of Debian. tutti_package(COMPONENT NAME SECTION DEPENDS RECOMMENDS DESCRIPTION)
set(CPACK_COMPONENTS_ALL)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
macro(tutti_package component name section depends recommends description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${recommends}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}")
endmacro()
set(about "Tutti is a collective communication library in C++20 and CUDA with its own
transports: shared memory, TCP and, by UCX, RDMA. A lost rank is named by all
others within a second, and no call waits for ever.")
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(same "(= ${version})")
tutti_package(runtime libtutti${soversion} libs "" libucx0 "collective communication, shared library\n${about}")
tutti_package(training libtutti-parallel${soversion} libs "libtutti${soversion} ${same}" "" "parallel training of transformers, shared library
This library trains transformers in parallel over ranks: data, tensor,
pipeline, context and expert parallelism, ZeRO and FSDP.")
tutti_package(nccl libnccl2-tutti libs "" libucx0 "C API of NCCL, by Tutti
${about}
.
The library lies in /usr/${TUTTI_NCCL_LIBDIR}, where programs do not find
it by themselves, and leaves NVIDIA's libnccl2 as it is. LD_LIBRARY_PATH or
LD_PRELOAD puts it under a program.")
tutti_package(tools tutti-tools science "" libucx0 "launch and measure collectives, train transformers
${about}
.
This package has the tutti command, the programs with the names of nccl-tests,
and train_gpt, generate and tokenize.")
tutti_package(development libtutti-dev libdevel
              "libtutti${soversion} ${same}, libtutti-parallel${soversion} ${same}, libnccl2-tutti ${same}" ""
              "collective communication, files for development
${about}
.
This package has the headers, a CMake package with tutti::tutti,
tutti::parallel and tutti::nccl, files for pkg-config, and the documentation
with examples.")

# What the loader has to know of a library that it finds.
set(control ${PROJECT_BINARY_DIR}/control)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
file(WRITE ${control}/runtime/shlibs "libtutti ${soversion} libtutti${soversion} (>= ${PROJECT_VERSION})\n")
file(WRITE ${control}/training/shlibs
     "libtutti_parallel ${soversion} libtutti-parallel${soversion} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/runtime/shlibs)
set(CPACK_DEBIAN_TRAINING_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/training/shlibs)

# What generator.cmake and debian.cmake need to know.
set(CPACK_TUTTI_SOURCES ${PROJECT_SOURCE_DIR})
set(CPACK_TUTTI_LIBDIR ${CMAKE_INSTALL_LIBDIR})
include(CPack)
