# Which folder may use which: the arrows of docs/explanation/architecture.md, and the only place
# where they are written down. A folder stands on the left once; on the right are all folders that it
# may include and link, itself excepted. A folder below one that is listed has its rules, until it
# gets a line.
#
# Two things read this table: tutti_check_arrows(), which ends the configuration when a target links
# against an arrow, and tests/repository/arrows, which fails on such an #include.

set(TUTTI_ARROWS
    "include/tutti        :"
    "include/tutti-nccl   :"
    "src/base             : include/tutti"
    "src/numbers          : include/tutti src/base"
    "src/device           : include/tutti src/base"
    "src/plan             : include/tutti src/base"
    "src/topology         : include/tutti src/base"
    "src/wire             : include/tutti src/base"
    "src/bootstrap        : include/tutti src/base src/wire"
    "collectives          : include/tutti src/base src/plan src/topology"
    "transports           : include/tutti src/base"
    "transports/joined    : include/tutti src/base transports"
    "transports/p2p       : include/tutti src/base src/device transports transports/shm"
    "transports/shm       : include/tutti src/base transports"
    "transports/tcp       : include/tutti src/base src/wire transports"
    "transports/ucx       : include/tutti src/base transports"
    "src/executor         : include/tutti src/base src/plan"
    "src/executor/host    : include/tutti src/base src/numbers src/device src/plan transports src/executor"
    "src/executor/kernel  : include/tutti src/base src/device src/plan transports transports/p2p \
src/executor"
    "src/executor/copy    : include/tutti src/base src/device src/plan transports transports/p2p \
src/executor src/executor/kernel"
    "src/communicator     : include/tutti src/base src/numbers src/device src/plan src/topology \
src/wire src/bootstrap collectives transports transports/joined transports/p2p transports/shm \
transports/tcp transports/ucx src/executor src/executor/host src/executor/copy src/executor/kernel"
    "src/nccl             : include/tutti include/tutti-nccl src/base src/numbers src/device src/communicator"
    "src/launch           : include/tutti src/base src/bootstrap"
    "src/python           : include/tutti"
    "src/tools            : include/tutti src/base src/numbers src/device src/plan src/topology \
src/wire src/bootstrap collectives transports transports/joined transports/shm transports/ucx \
src/executor/host src/communicator \
src/launch parallel/tensor parallel/checkpoint parallel/kernels parallel/kernels/dry \
parallel/kernels/host parallel/sharding parallel/pipeline parallel/mesh parallel/optim parallel/store parallel/nn \
parallel/data parallel/engine parallel/dry parallel/planner parallel/huggingface"
    "parallel/tensor      : include/tutti"
    "parallel/checkpoint  : include/tutti parallel/tensor"
    "parallel/kernels     : include/tutti parallel/tensor"
    "parallel/kernels/host : include/tutti parallel/tensor parallel/kernels"
    "parallel/kernels/cuda : include/tutti parallel/tensor parallel/kernels"
    "parallel/kernels/dry : include/tutti parallel/tensor parallel/kernels parallel/kernels/host"
    "parallel/sharding    : include/tutti parallel/tensor"
    "parallel/pipeline    : include/tutti parallel/tensor"
    "parallel/mesh        : include/tutti parallel/tensor parallel/sharding"
    "parallel/optim       : include/tutti parallel/tensor parallel/kernels"
    "parallel/store       : include/tutti parallel/tensor parallel/kernels parallel/sharding \
parallel/mesh parallel/optim"
    "parallel/nn          : include/tutti parallel/tensor parallel/kernels parallel/sharding \
parallel/mesh parallel/optim parallel/store"
    "parallel/data        : include/tutti parallel/tensor parallel/checkpoint parallel/tokenizer"
    "parallel/tokenizer   : include/tutti parallel/tensor parallel/checkpoint"
    "parallel/engine      : include/tutti parallel/tensor parallel/checkpoint parallel/kernels \
parallel/sharding parallel/pipeline \
parallel/mesh parallel/optim parallel/store parallel/nn parallel/data"
    "parallel/huggingface : include/tutti parallel/tensor parallel/checkpoint parallel/kernels \
parallel/sharding parallel/mesh parallel/optim parallel/store parallel/nn parallel/data \
parallel/engine"
    "parallel/dry         : include/tutti parallel/tensor parallel/checkpoint parallel/kernels \
parallel/kernels/dry parallel/kernels/host parallel/sharding parallel/pipeline parallel/mesh parallel/optim \
parallel/store parallel/nn parallel/data parallel/engine"
    "parallel/planner     : include/tutti parallel/tensor parallel/checkpoint parallel/kernels \
parallel/kernels/dry parallel/kernels/host parallel/sharding parallel/pipeline parallel/mesh parallel/optim \
parallel/store parallel/nn parallel/data parallel/engine parallel/dry"
    "parallel/samples     : include/tutti src/base parallel/tensor parallel/checkpoint parallel/kernels \
parallel/kernels/cuda parallel/kernels/dry parallel/kernels/host \
parallel/sharding parallel/pipeline parallel/mesh parallel/optim parallel/store parallel/nn \
parallel/data parallel/engine parallel/dry parallel/planner parallel/tokenizer parallel/huggingface")

# Sets `out` to the line of the table that holds for `folder`: its own, or its closest parent's.
function(tutti_arrow_line folder out)
  while(NOT folder STREQUAL "")
    foreach(line IN LISTS TUTTI_ARROWS)
      if(line MATCHES "^([^ ]+) *:(.*)$" AND CMAKE_MATCH_1 STREQUAL folder)
        set(${out} "${line}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
  set(${out} "" PARENT_SCOPE)
endfunction()

# Ends the configuration when a folder's library links one that the table does not allow; writes the
# table for the test. To be called after the last tutti_library().
function(tutti_check_arrows)
  get_property(libraries GLOBAL PROPERTY TUTTI_LIBRARIES)
  foreach(library IN LISTS libraries)
    get_property(folder TARGET ${library} PROPERTY TUTTI_FOLDER)
    tutti_arrow_line("${folder}" line)
    if(line STREQUAL "")
      message(FATAL_ERROR "${folder} has no line in cmake/TuttiArrows.cmake")
    endif()
    string(REGEX MATCH "^([^ ]+) *:(.*)$" matched "${line}")
    set(self ${CMAKE_MATCH_1})
    separate_arguments(allowed UNIX_COMMAND "${CMAKE_MATCH_2}")
    get_property(links TARGET ${library} PROPERTY TUTTI_LINKS)
    foreach(link IN LISTS links)
      if(NOT TARGET ${link})
        continue()
      endif()
      get_property(below TARGET ${link} PROPERTY TUTTI_FOLDER)
      if(NOT below)
        continue()
      endif()
      tutti_arrow_line("${below}" belowLine)
      string(REGEX REPLACE " *:.*" "" below "${belowLine}")
      if(NOT below STREQUAL self AND NOT below IN_LIST allowed)
        message(FATAL_ERROR "${library} (${folder}) links ${link} (${below}): that is against the "
                            "arrows of cmake/TuttiArrows.cmake")
      endif()
    endforeach()
  endforeach()
  list(JOIN TUTTI_ARROWS "\n" table)
  file(WRITE ${PROJECT_BINARY_DIR}/arrows.txt "${table}\n")
endfunction()
