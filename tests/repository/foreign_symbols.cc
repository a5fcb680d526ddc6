// A library that shipped_test.cc must refuse.

extern "C" int cublasLtMatmulOfNobody(int x);
extern "C" int cublasLtMatmulOfNobody(int x) { return x; }
