#define TUTTI_LEAVES avx512Leaves
#define TUTTI_LEAVES_NAME "avx512"
#include "parallel/kernels/host/elementwise.inl"
