# The component emulation: it is installed on demand alone, and runs programs for NCCL that were built with
# what is installed, where it is now.

# run(RESULT COMMAND...): the command ends with that exit status; what it says is in `output`.
function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(APPEND output "${errors}")
  if(NOT result EQUAL expected)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\n${output}\nended with ${result}, and not with ${expected}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect text)
  string(FIND "${output}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "this should say \"${text}\":\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
set(prefix ${FOLDER}/prefix)
set(tutti ${prefix}/bin/tutti)
run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/elsewhere)
file(RENAME ${FOLDER}/elsewhere ${prefix})
file(GLOB_RECURSE runtimes ${prefix}/*libcudart* ${prefix}/*libcuda.so*)
if(runtimes)
  message(FATAL_ERROR "installed with the rest, where programs may find it: ${runtimes}")
endif()
run(1 ${tutti} emulate -- true)
expect("the emulation is not installed in ${prefix}/${LIBDIR}/tutti/emulation")
run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component emulation)

# The page's program.
run(0 ${CMAKE_COMMAND} -S ${SOURCE}/docs/examples/nccl_without_gpu -B ${FOLDER}/example -G Ninja
      -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${prefix} -D CUDAToolkit_ROOT=${CUDA}
      -D CMAKE_BUILD_RPATH=)
run(0 ${CMAKE_COMMAND} --build ${FOLDER}/example)
run(0 ${tutti} emulate --devices 2 -- ${FOLDER}/example/all_reduce)
expect("GPU 0 of 2: 3, then 6 by a graph")
expect("GPU 1 of 2: 3, then 6 by a graph")
run(0 ${tutti} emulate --devices 3 -- ${FOLDER}/example/all_reduce 3)
expect("GPU 0 of 3: 6, then 18 by a graph")
expect("GPU 2 of 3: 6, then 18 by a graph")
# A rank without a GPU ends the others, who wait for it.
run(1 ${CMAKE_COMMAND} -E env timeout 60 ${tutti} emulate --devices 2 -- ${FOLDER}/example/all_reduce 3)
expect("invalid device ordinal")
run(0 ${CMAKE_COMMAND} -E env CUDA_VISIBLE_DEVICES=1 ${tutti} emulate --devices 3 -- ${FOLDER}/example/all_reduce)
expect("GPU 0 of 1: 1, then 1 by a graph")

# A kernel of machine code is named; NVIDIA's runtime inside a program is found.
set(source ${SOURCE}/tests/install/outside/kernel.cu)
run(0 ${NVCC} -arch=sm_90 -cudart shared ${source} -o ${FOLDER}/kernel)
run(0 ${tutti} emulate -- ${FOLDER}/kernel)
expect("cudaErrorNoKernelImageForDevice")
expect("tutti emulation: kernel scaleBy(float*, float) is machine code for GPUs")
run(0 ${NVCC} -arch=sm_90 ${source} -o ${FOLDER}/kernel_static)
run(126 ${tutti} emulate -- ${FOLDER}/kernel_static)
expect("kernel_static has NVIDIA's CUDA runtime linked into it")
# A shell starts it unseen, so that the driver's stand-in tells.
run(1 ${tutti} emulate -- sh -c ${FOLDER}/kernel_static)
expect("kernel_static has NVIDIA's CUDA runtime linked into it")
