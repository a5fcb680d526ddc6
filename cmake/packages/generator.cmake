# Read by cpack before each kind of package.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PRE_BUILD_SCRIPTS ${CPACK_TUTTI_SOURCES}/cmake/packages/debian.cmake)
  # Else it would be the first line of each package's description.
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY)
else()
  set(CPACK_STRIP_FILES ON)
endif()
