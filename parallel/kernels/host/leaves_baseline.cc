#define TUTTI_LEAVES baselineLeaves
#define TUTTI_LEAVES_NAME "baseline"
#include "parallel/kernels/host/leaves.inl"
