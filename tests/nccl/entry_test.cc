// The C boundary: every failure becomes a result, and its text the last error.

#include "src/nccl/entry.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "src/nccl/debug_log.h"

namespace tutti::nccl {
namespace {

std::string lastFailure() { return DebugLog::ofProcess().lastFailure(); }

TEST(Results, AreOfTheKindOfFailure) {
  EXPECT_EQ(resultOf(ErrorCode::InvalidArgument), ncclInvalidArgument);
  for (const ErrorCode code :
       {ErrorCode::InvalidUsage, ErrorCode::Mismatch, ErrorCode::Refused, ErrorCode::Unsupported})
    EXPECT_EQ(resultOf(code), ncclInvalidUsage) << toString(code);
  for (const ErrorCode code : {ErrorCode::PeerLost, ErrorCode::Aborted})
    EXPECT_EQ(resultOf(code), ncclRemoteError) << toString(code);
  for (const ErrorCode code : {ErrorCode::OutOfMemory, ErrorCode::System})
    EXPECT_EQ(resultOf(code), ncclSystemError) << toString(code);
  EXPECT_EQ(resultOf(ErrorCode::Cuda), ncclUnhandledCudaError);
  EXPECT_EQ(resultOf(ErrorCode::Internal), ncclInternalError);
}

TEST(Guard, GivesWhatTheBodyReturns) {
  DebugLog::ofProcess().failure("before");
  EXPECT_EQ(guard("ncclCall", [] { return ncclSuccess; }), ncclSuccess);
  EXPECT_EQ(guard("ncclCall", [] { return ncclInProgress; }), ncclInProgress);
  EXPECT_EQ(lastFailure(), "before");
}

TEST(Guard, KeepsTheTextOfWhatIsThrown) {
  EXPECT_EQ(guard("ncclCall",
                  []() -> ncclResult_t { throw Error(ErrorCode::PeerLost, "rank 1 is lost"); }),
            ncclRemoteError);
  EXPECT_EQ(lastFailure(), "ncclCall: rank 1 is lost");
  EXPECT_EQ(guard("ncclCall", []() -> ncclResult_t { throw std::bad_alloc(); }), ncclSystemError);
  EXPECT_EQ(lastFailure(), "ncclCall: out of memory");
  EXPECT_EQ(guard("ncclCall", []() -> ncclResult_t { throw std::runtime_error("odd"); }),
            ncclInternalError);
  EXPECT_EQ(lastFailure(), "ncclCall: odd");
  EXPECT_EQ(guard("ncclCall", []() -> ncclResult_t { throw 42; }), ncclInternalError);
}

}  // namespace
}  // namespace tutti::nccl
