# The source of the mutation NAME, changed, in OUT; without NAME, only whether each row of the table finds
# once what it replaces. Run with -D SOURCE_DIR=... [-D NAME=... -D OUT=...].

set(rows 0)

function(use_mutation)
  if(NAME AND NOT NAME STREQUAL m_NAME)
    return()
  endif()
  math(EXPR rows "${rows} + 1")
  set(rows ${rows} PARENT_SCOPE)
  file(READ ${SOURCE_DIR}/${m_FILE} text)
  string(FIND "${text}" "${m_FROM}" first)
  string(FIND "${text}" "${m_FROM}" last REVERSE)
  if(first EQUAL -1)
    message(SEND_ERROR "mutation ${m_NAME}: ${m_FILE} does not have\n${m_FROM}")
  elseif(NOT first EQUAL last)
    message(SEND_ERROR "mutation ${m_NAME}: ${m_FILE} has more than once\n${m_FROM}")
  elseif(NAME)
    string(REPLACE "${m_FROM}" "${m_TO}" text "${text}")
    file(WRITE ${OUT}.new "${text}")
    file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
  endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/mutation.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/table.cmake)
