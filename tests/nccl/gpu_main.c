/* nccl_gpu [NAME]: the cases on GPUs, every one or those whose names begin with NAME. Linked with
 * NVIDIA's runtime: it runs on GPUs, or with the emulation's in its place. Either way it has a
 * driver, which libnccl.so.2 finds. */

#include <dlfcn.h>

#include "harness.h"

int main(int argc, char** argv) {
  if (!dlopen("libcuda.so.1", RTLD_NOW)) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const Case* const files[] = {gpu_cases, gpu_life_cases, gpu_today_cases};
  return run_cases(files, 3, argc > 1 ? argv[1] : "");
}
