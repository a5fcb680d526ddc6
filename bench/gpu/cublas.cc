#include "bench/gpu/cublas.h"

#include <dlfcn.h>

#include <vector>

#include "parallel/tensor/check.h"

namespace tutti::bench {

using parallel::DType;
using parallel::fail;
using parallel::GemmArgs;
using parallel::require;

namespace {

// Of cublas_api.h and library_types.h, which have not changed since version 11.
constexpr int kKeep = 0, kTranspose = 1;
constexpr int kFloat32 = 0, kBFloat16 = 14;
constexpr int kComputeFloat32 = 68;
constexpr int kDefaultAlgorithm = -1;

void* openLibrary(const std::string& file) {
  std::vector<std::string> names{file};
  if (file.empty()) names = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  std::string why;
  for (const std::string& name : names) {
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW)) return library;
    why = ::dlerror();
  }
  fail(ErrorCode::Unsupported, "there is no cuBLAS: ", why);
}

int typeOf(const parallel::Tensor& x) {
  if (x.type == DType::Float32) return kFloat32;
  require(x.type == DType::BFloat16, "cuBLAS is called for bfloat16 and float32, not ", x);
  return kBFloat16;
}

}  // namespace

struct Cublas::Functions {
  int (*create)(void**);
  int (*destroy)(void*);
  int (*setStream)(void*, CUstream_st*);
  int (*getVersion)(void*, int*);
  int (*gemmEx)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*,
                int, int, const void*, void*, int, int, int, int);
  int (*gemmBatch)(void*, int, int, int, int, int, const void*, const void*, int, int, long long,
                   const void*, int, int, long long, const void*, void*, int, int, long long, int,
                   int, int);
};

Cublas::Cublas(const std::string& file, CUstream_st* stream)
    : functions_(std::make_unique<Functions>()), library_(openLibrary(file)) {
  const auto find = [&](auto& function, const char* name) {
    void* const address = ::dlsym(library_, name);
    if (address == nullptr) fail(ErrorCode::Unsupported, "cuBLAS has no ", name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find(functions_->create, "cublasCreate_v2");
  find(functions_->destroy, "cublasDestroy_v2");
  find(functions_->setStream, "cublasSetStream_v2");
  find(functions_->getVersion, "cublasGetVersion_v2");
  find(functions_->gemmEx, "cublasGemmEx");
  find(functions_->gemmBatch, "cublasGemmStridedBatchedEx");
  if (const int status = functions_->create(&handle_))
    fail(ErrorCode::Unsupported, "cublasCreate: status ", status);
  if (const int status = functions_->setStream(handle_, stream))
    fail(ErrorCode::Cuda, "cublasSetStream: status ", status);
}

Cublas::~Cublas() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

std::string Cublas::version() const {
  int number = 0;
  functions_->getVersion(handle_, &number);
  return parallel::message(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

void Cublas::gemm(const GemmArgs& args) {
  const auto& c = args.c;
  const auto size = [](int64_t extent) { return static_cast<int>(extent); };
  const auto stride = [&](const parallel::Tensor& x) { return size(x.strides[-2]); };
  const int rows = size(c.shape[-2]), columns = size(c.shape[-1]);
  const int depth = size(args.a.shape[args.transposeA ? -2 : -1]);
  const int a = args.transposeA ? kTranspose : kKeep, b = args.transposeB ? kTranspose : kKeep;
  const float alpha = 1, beta = static_cast<float>(args.beta);
  // Its matrices are column by column: ours, row by row, are their transposes to it.
  const int status =
      c.shape.rank() == 2
          ? functions_->gemmEx(handle_, b, a, columns, rows, depth, &alpha, args.b.data,
                               typeOf(args.b), stride(args.b), args.a.data, typeOf(args.a),
                               stride(args.a), &beta, c.data, typeOf(c), stride(c), kComputeFloat32,
                               kDefaultAlgorithm)
          : functions_->gemmBatch(handle_, b, a, columns, rows, depth, &alpha, args.b.data,
                                  typeOf(args.b), stride(args.b), args.b.strides[0], args.a.data,
                                  typeOf(args.a), stride(args.a), args.a.strides[0], &beta, c.data,
                                  typeOf(c), stride(c), c.strides[0], size(c.shape[0]),
                                  kComputeFloat32, kDefaultAlgorithm);
  if (status != 0) fail(ErrorCode::Cuda, "a product of cuBLAS: status ", status);
}

}  // namespace tutti::bench
