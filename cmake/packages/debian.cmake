# What Debian wants otherwise than a prefix has it, done to the files before they are packed: copyright and changelog of
# each package, compressed manual pages, zsh's completions in the folder of packages, and no search paths.

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  set(pages ${root}/share/doc/${package})
  configure_file(${CPACK_TUTTI_SOURCES}/cmake/packages/copyright ${pages}/copyright COPYONLY)
  file(WRITE ${pages}/changelog
       "tutti (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
       "  * New version; CHANGELOG.md in libtutti-dev says what changed.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(CHMOD ${pages} DIRECTORY_PERMISSIONS
       OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  file(GLOB manual ${root}/share/man/man*/*)
  execute_process(COMMAND gzip -9 -n ${pages}/changelog ${manual} COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${root}/share/zsh/site-functions)
    file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)
  endif()
  file(GLOB libraries ${root}/${CPACK_TUTTI_LIBDIR}/lib*.so.*)
  foreach(library IN LISTS libraries)
    if(NOT IS_SYMLINK ${library})
      file(RPATH_REMOVE FILE ${library})
    endif()
  endforeach()
endforeach()
