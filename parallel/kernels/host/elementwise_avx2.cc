#define TUTTI_LEAVES avx2Leaves
#define TUTTI_LEAVES_NAME "avx2"
#include "parallel/kernels/host/elementwise.inl"
