# What a row of table.cmake means. Who includes both defines use_mutation() before: it is called for each
# row, which it finds in these variables:
#   m_NAME      of the mutation
#   m_FILE      the source that is changed
#   m_FROM      what is replaced in it, which is there once, and
#   m_TO        by what; nothing where it is left out
#   m_TEST      the test's program, of which
#   m_FILTER    these tests are run,
#   m_SEED      in this order of threads (TUTTI_EMULATION_SEED); 0 where there is none
#   m_SHOWS     a regular expression: what the test says, or how it ends, when it sees the bug
#   m_SANITIZER thread, address (with undefined behaviour), or nothing
#   m_BUILD     the same, or plain
#   m_UNIT      the source that is compiled again: FILE, or the one of its folder that includes it
#   m_ORIGINAL  the program without the bug, made in the same way
#   m_MUTANT    the one with it

function(mutation name)
  cmake_parse_arguments(PARSE_ARGV 1 m "" "FILE;FROM;TO;SANITIZER;TEST;FILTER;SEED;SHOWS" "")
  foreach(field FILE FROM TEST FILTER SHOWS)
    if("${m_${field}}" STREQUAL "")
      message(FATAL_ERROR "mutation ${name} has no ${field}")
    endif()
  endforeach()
  if(m_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mutation ${name} has a word too many: ${m_UNPARSED_ARGUMENTS}")
  endif()
  set(m_NAME ${name})
  if(NOT m_SEED)
    set(m_SEED 0)
  endif()
  set(m_BUILD plain)
  if(m_SANITIZER)
    set(m_BUILD ${m_SANITIZER})
  endif()
  cmake_path(GET m_FILE PARENT_PATH folder)
  if(m_FILE MATCHES "\\.cc$")
    set(m_UNIT ${m_FILE})
  elseif(folder STREQUAL "transports/p2p")
    set(m_UNIT ${folder}/probe.cu)
  else()
    set(m_UNIT ${folder}/kernels.cu)
  endif()
  string(MAKE_C_IDENTIFIER ${m_UNIT} unit)
  set(m_ORIGINAL original_${m_BUILD}_${m_TEST}_${unit})
  set(m_MUTANT mutant_${name})
  use_mutation()
endfunction()
