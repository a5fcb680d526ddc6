// A program with a kernel of machine code, whose launch it looks at.

#include <cstdio>

__global__ void scaleBy(float* data, float factor) { data[threadIdx.x] *= factor; }

int main() {
  float* data = nullptr;
  if (cudaMalloc(&data, 32 * sizeof(float)) != cudaSuccess) return 1;
  scaleBy<<<1, 32>>>(data, 2.f);
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
