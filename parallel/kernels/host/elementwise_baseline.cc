#define TUTTI_LEAVES baselineElementwise
#define TUTTI_LEAVES_NAME "baseline"
#include "parallel/kernels/host/elementwise.inl"
