# What the Makefile's targets call, with programs in place of cmake, ctest and train_gpt that only write
# down how they were called. Run by ctest with -D SOURCE_DIR=... -D FOLDER=...

find_program(make NAMES make gmake)
if(NOT make)
  message(STATUS "SKIPPED: no make is installed")
  return()
endif()

function(write_program path text)
  file(WRITE ${path} "#!/bin/sh\n${text}\n")
  file(CHMOD ${path} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
configure_file(${SOURCE_DIR}/Makefile ${FOLDER}/Makefile COPYONLY)
configure_file(${SOURCE_DIR}/CMakePresets.json ${FOLDER}/CMakePresets.json COPYONLY)
foreach(script run-demo.sh run-fuzz.sh run-seeds.sh run-torch.sh test-runs.sh)
  configure_file(${SOURCE_DIR}/cmake/${script} ${FOLDER}/cmake/${script} COPYONLY)
endforeach()
write_program(${FOLDER}/cmake/install-packages.sh "echo \"packages $*\" >>calls")
write_program(${FOLDER}/cmake/unpack-jargon.sh "echo \"unpack $1\" >>calls")
write_program(${FOLDER}/build/demo/bin/train_gpt "printf 'train_gpt' >>calls
printf ' <%s>' \"$@\" >>calls
echo >>calls")
# The cache keeps what it was told even when the configuration then fails, as CMake's does.
write_program(${FOLDER}/bin/cmake "echo \"cmake $*\" >>calls
case $1 in --preset)
  folder=build-$2
  case $2 in demo) folder=build/demo ;; release) folder=build ;; esac
  mkdir -p $folder
  echo \"TUTTI_CUDA:STRING=\${4#TUTTI_CUDA=}\" >$folder/CMakeCache.txt
  [ ! -e refuse ] && touch $folder/build.ninja ;;
esac")
write_program(${FOLDER}/bin/cpack "echo \"cpack $* in \${PWD##*/}\" >>../calls")
# Fails where the file `failing` has its folder and seed.
write_program(${FOLDER}/bin/ctest "echo \"ctest $* with seed $TUTTI_EMULATION_SEED\" >>calls
mkdir -p $2/Testing/Temporary
touch $2/Testing/Temporary/LastTest.log
echo \"100% tests passed\"
! grep -qsxF \"$2 $TUTTI_EMULATION_SEED\" failing")
set(ENV{PATH} "${FOLDER}/bin:$ENV{PATH}")
foreach(variable TUTTI_CUDA TUTTI_CUDA_ARCHITECTURES TEXT RANKS TORCH_TESTS JOBS PRESETS SEEDS TARGETS FUZZ_SECONDS MAKEFLAGS MAKELEVEL)
  unset(ENV{${variable}})
endforeach()

# Runs make and sets `calls` to what it called, `output` to what it said.
function(run_make)
  file(REMOVE ${FOLDER}/calls)
  execute_process(COMMAND ${make} --no-print-directory ${ARGV} WORKING_DIRECTORY ${FOLDER}
                  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0 AND NOT EXISTS ${FOLDER}/refuse AND NOT EXISTS ${FOLDER}/failing)
    message(SEND_ERROR "make ${ARGV}\n${output}")
  endif()
  set(calls "")
  if(EXISTS ${FOLDER}/calls)
    file(READ ${FOLDER}/calls calls)
  endif()
  set(call "make ${ARGV}" PARENT_SCOPE)
  set(calls "${calls}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
  set(result ${result} PARENT_SCOPE)
endfunction()

function(expect text)
  string(FIND "${calls}" "${text}" at)
  if(at EQUAL -1)
    message(SEND_ERROR "${call} should call \"${text}\", not\n${calls}")
  endif()
endfunction()

function(expect_match pattern)
  if(NOT calls MATCHES "${pattern}")
    message(SEND_ERROR "${call} should call \"${pattern}\", not\n${calls}")
  endif()
endfunction()

function(expect_not text)
  string(FIND "${calls}" "${text}" at)
  if(NOT at EQUAL -1)
    message(SEND_ERROR "${call} should not call \"${text}\":\n${calls}")
  endif()
endfunction()

# The demo has packages and a folder of its own, and is configured once.
run_make(demo)
expect("packages demo\n")
expect("cmake --preset demo\n")
expect("cmake --build build/demo --target train_gpt ")
expect("unpack build/jargon.txt\n")
if(NOT output MATCHES "make demo took [0-9]+ s: packages [0-9]+ s, building [0-9]+ s, training [0-9]+ s")
  message(SEND_ERROR "make demo does not say how long it took:\n${output}")
endif()
expect("train_gpt <--ranks> <4> <--text> <build/jargon.txt>\n")

# A text of one's own, whatever its name, needs no other.
file(TOUCH "${FOLDER}/it's my text.txt")
run_make(demo RANKS=2 "TEXT=it's my text.txt")
expect_not("unpack")
expect_not("--preset")
expect("train_gpt <--ranks> <2> <--text> <it's my text.txt>\n")

# What cannot be is refused before anything is installed.
file(TOUCH ${FOLDER}/refuse)
foreach(wrong RANKS=0 RANKS= "RANKS=2 x" RANKS=-1 TEXT=nowhere.txt TEXT=build)
  run_make(demo ${wrong})
  string(REGEX MATCH "^[A-Z]+" name "${wrong}")
  if(result EQUAL 0 OR NOT output MATCHES "make demo: ${name} is '" OR NOT calls STREQUAL "")
    message(SEND_ERROR "${call} is not refused at once:\n${output}${calls}")
  endif()
endforeach()
file(REMOVE ${FOLDER}/refuse)

# TUTTI_CUDA has its effect on a folder that is configured, once.
run_make(build TUTTI_CUDA=OFF)
expect("packages build\n")
expect("cmake --preset release -D TUTTI_CUDA=OFF\n")
run_make(build TUTTI_CUDA=OFF)
expect_not("--preset")
expect("cmake --build build")

# Packages are made of a build of their own.
run_make(package TUTTI_CUDA=OFF JOBS=1)
expect("cmake --preset package -D TUTTI_CUDA=OFF\n")
expect("cmake --build --preset package -- -j 1\n")
expect("cpack -G DEB in build-package\ncpack -G TGZ in build-package\n")

# A configuration that failed is not taken for one.
file(TOUCH ${FOLDER}/refuse)
run_make(build TUTTI_CUDA=ON)
expect_not("--build")
run_make(build TUTTI_CUDA=ON)
expect("cmake --preset release -D TUTTI_CUDA=ON\n")
expect_not("--build")
file(REMOVE ${FOLDER}/refuse)

# Nor is one that is older than the presets.
run_make(build TUTTI_CUDA=ON)
execute_process(COMMAND touch -d "1 minute" ${FOLDER}/CMakePresets.json)
run_make(build TUTTI_CUDA=ON)
expect("--preset")
file(REMOVE ${FOLDER}/refuse)

# All but the long tests.
run_make(thorough JOBS=1)
expect("packages \n")
expect("cmake --build build --target tests/all -- -j 1\n")
expect("cmake --build build --target thorough_tests -- -j 1\n")
expect_match("ctest --test-dir build -j 1 -LE \\^\\(long\\|torch\\)\\$ --output-on-failure ")

# Three seeds of three builds, the last ones also where one of them has failed.
run_make(seeds)
foreach(preset release asan tsan)
  expect("cmake --preset ${preset} -D TUTTI_CUDA=ON\n")
endforeach()
foreach(folder build build-asan build-tsan)
  expect("cmake --build ${folder} --target emulated_tests ")
  foreach(seed 0 1 2)
    expect_match("ctest --test-dir ${folder} [^\n]* with seed ${seed}\n")
  endforeach()
endforeach()
if(NOT output MATCHES "make seeds: all passed")
  message(SEND_ERROR "make seeds does not say that all has passed:\n${output}")
endif()
file(WRITE ${FOLDER}/failing "build-asan 1\n")
run_make(seeds JOBS=1)
expect_match("ctest --test-dir build-tsan -j 1 [^\n]* with seed 2\n")
if(result EQUAL 0 OR NOT output MATCHES "make seeds: FAILED")
  message(SEND_ERROR "make seeds does not say that a test has failed:\n${output}")
endif()
file(REMOVE ${FOLDER}/failing)

# A part of it.
run_make(seeds PRESETS=tsan "SEEDS=1 2" TUTTI_CUDA_ARCHITECTURES=sm90)
expect("cmake --preset tsan -D TUTTI_CUDA=ON -D TUTTI_CUDA_ARCHITECTURES=sm90\n")
expect_not("build-asan")
expect_not("with seed 0\n")
expect_match("ctest --test-dir build-tsan [^\n]* with seed 2\n")

# The site, of the packages of Python that the list names: they are installed anew when it has changed.
configure_file(${SOURCE_DIR}/tests/requirements-docs.txt ${FOLDER}/tests/requirements-docs.txt COPYONLY)
write_program(${FOLDER}/bin/doxygen "echo \"doxygen $*\" >>calls")
foreach(program pip mkdocs)
  write_program(${FOLDER}/${program} "echo \"${program} $*\" >>calls")
endforeach()
write_program(${FOLDER}/bin/python3 "echo \"python3 $*\" >>calls
mkdir -p $3/bin
cp pip mkdocs $3/bin")
run_make(docs)
expect("python3 -m venv build/docs-venv\n")
expect_match("pip install [^\n]*-r tests/requirements-docs.txt\n")
expect_match("doxygen [^\n]*\nmkdocs build --config-file docs/site/mkdocs.yml\n")
run_make(docs)
expect_not("python3")
expect("mkdocs build")
file(APPEND ${FOLDER}/tests/requirements-docs.txt "another==1\n")
run_make(docs)
expect("python3 -m venv build/docs-venv\n")

# PyTorch, in the same way, and its tests.
configure_file(${SOURCE_DIR}/tests/requirements-torch.txt ${FOLDER}/tests/requirements-torch.txt COPYONLY)
write_program(${FOLDER}/bin/df "echo 'tmpfs 1 1 99999999 1% /'")
run_make(torch JOBS=1)
expect("python3 -m venv build/torch-venv\n")
expect_match("pip install [^\n]*-r tests/requirements-torch.txt\n")
expect("cmake --build build --target torch_tests ")
expect_match("ctest --test-dir build -L \\^torch\\$ -R . --output-on-failure ")
run_make(torch "TORCH_TESTS=^torch_tutti")
expect_match(" -R \\^torch_tutti ")
expect_not("python3")
expect("--target torch_tests ")
# Where it cannot be had, that is said, and nothing runs.
function(expect_torch_skipped why)
  run_make(torch)
  expect_not("torch_tests")
  if(NOT result EQUAL 0 OR NOT output MATCHES "SKIPPED: make torch: ${why}")
    message(SEND_ERROR "make torch should say \"${why}\":\n${output}")
  endif()
endfunction()
file(APPEND ${FOLDER}/tests/requirements-torch.txt "another==1\n")
write_program(${FOLDER}/pip "echo 'ERROR: no network' >&2
exit 1")
expect_torch_skipped("PyTorch could not be had: ERROR: no network")
write_program(${FOLDER}/bin/df "echo 'tmpfs 1 1 1 1% /'")
expect_torch_skipped("PyTorch needs 8 GiB in build/, where 0 GiB are free")

# Peers: those that can be had, whose workers are compiled once.
configure_file(${SOURCE_DIR}/cmake/run-peers.sh ${FOLDER}/cmake/run-peers.sh COPYONLY)
foreach(source bench/collectives/mpi_worker.c bench/collectives/worker.c bench/collectives/worker.h
               bench/jobs/commands.c bench/jobs/commands.h)
  configure_file(${SOURCE_DIR}/${source} ${FOLDER}/${source} COPYONLY)
endforeach()
foreach(compiler mpicc bin/mpicc.openmpi bin/mpicc.mpich)
  write_program(${FOLDER}/${compiler} "echo \"mpicc $*\" >>calls
while [ $1 != -o ]; do shift; done
echo >$2")
endforeach()
write_program(${FOLDER}/cmake/fetch-packages.sh "echo \"fetch $*\" >>calls
[ $1 = build/peers/openmpi ] || { echo 'ERROR: no network' >&2; exit 1; }
mkdir -p $1/bin
cp mpicc $1/bin")
write_program(${FOLDER}/build/bin/peers "echo \"peers $*\" >>calls")
run_make(bench-peers "PEERS=--quick --ranks 2")
expect("packages peers\n")
expect("cmake --build build --target bench/collectives/all ")
expect("fetch build/peers/openmpi tests/requirements-peers-openmpi.txt\n")
expect("fetch build/peers/mpich tests/requirements-peers-mpich.txt\n")
foreach(name openmpi debian-openmpi debian-mpich)
  expect_match("mpicc [^\n]*-o build/peers/${name}/bin/mpi_worker bench/collectives/mpi_worker.c ")
endforeach()
expect_not("-o build/peers/mpich/")
if(NOT output MATCHES "make bench-peers: mpich is left out: ERROR: no network")
  message(SEND_ERROR "make bench-peers does not say who is left out:\n${output}")
endif()
expect_match("peers --commit [^\n]*--quick --ranks 2\n$")
run_make(bench-peers)
expect_not("mpicc")
expect_match("peers --commit ")

# Every target of the corpora, or those that are named; one that finds something is not the last, and make fails.
foreach(target a b)
  file(MAKE_DIRECTORY ${FOLDER}/tests/fuzz/corpus/${target})
  write_program(${FOLDER}/build/fuzz/fuzzers/fuzz_${target} "echo \"fuzz_${target} $*\" >>calls
echo '#7 DONE cov: 12 ft: 34 corp: 1/1b'
echo 'stat::number_of_executed_units: 56'
[ ! -e finding-${target} ]")
endforeach()
run_make(fuzz FUZZ_SECONDS=9)
expect("cmake --preset fuzz\n")
expect("cmake --build build/fuzz --target fuzzers ")
foreach(target a b)
  expect_match("fuzz_${target} [^\n]*-max_total_time=9 [^\n]*-timeout=1 [^\n]*corpus/${target} tests/fuzz/corpus/${target}\n")
endforeach()
if(NOT output MATCHES "\\| b \\| 56 \\| 12 \\| 34 \\|")
  message(SEND_ERROR "make fuzz prints no figures:\n${output}")
endif()
run_make(fuzz TARGETS=b)
expect_not("fuzz_a ")
expect("-max_total_time=60 ")
run_make(fuzz FUZZ_SECONDS=0)
expect_not("fuzz_a ")
# An input that takes long on a busy machine alone is no finding.
write_program(${FOLDER}/build/fuzz/fuzzers/fuzz_b "echo \"fuzz_b $*\" >>calls
case $* in *-max_total_time*) [ -e waited ] || { touch waited build/fuzz/found/b-timeout-1; exit 70; } ;; esac")
run_make(fuzz TARGETS=b)
expect_match("fuzz_b -max_total_time=60 .*fuzz_b build/fuzz/found/b-timeout-1\n.*fuzz_b -max_total_time=")
if(EXISTS ${FOLDER}/build/fuzz/found/b-timeout-1)
  message(SEND_ERROR "make fuzz keeps an input that was none")
endif()
# One that takes a second of a processor is.
file(WRITE ${FOLDER}/failing "")
write_program(${FOLDER}/build/fuzz/fuzzers/fuzz_b "touch build/fuzz/found/b-timeout-1
case $* in *-max_total_time*) exit 70 ;; esac
while :; do :; done")
run_make(fuzz TARGETS=b)
if(result EQUAL 0 OR NOT output MATCHES "\\| b [^\n]* status 70 " OR NOT EXISTS ${FOLDER}/build/fuzz/found/b-timeout-1)
  message(SEND_ERROR "make fuzz does not keep an input that takes a second:\n${output}")
endif()
write_program(${FOLDER}/build/fuzz/fuzzers/fuzz_b "echo \"fuzz_b $*\" >>calls")
file(TOUCH ${FOLDER}/finding-a)
run_make(fuzz)
expect("fuzz_b ")
if(result EQUAL 0 OR NOT output MATCHES "\\| a [^\n]* status 1 ")
  message(SEND_ERROR "make fuzz does not say that a target has found something:\n${output}")
endif()
