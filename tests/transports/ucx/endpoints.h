#pragma once

// Workers of UCX, and endpoints on them, for tests of several files.

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/transports/endpoints.h"
#include "tests/transports/ucx/fabrics.h"
#include "transports/ucx/endpoint.h"
#include "transports/ucx/worker.h"

namespace tutti::tests {

using Workers = std::vector<std::shared_ptr<transports::ucx::Worker>>;

inline Workers makeWorkers(int count, const transports::ucx::WorkerOptions& options = overTcp()) {
  Workers workers;
  for (int i = 0; i < count; ++i) workers.push_back(transports::ucx::makeWorker(options));
  return workers;
}

inline Endpoints makeEndpoints(const Workers& workers, const transports::RingLayout& layout) {
  Endpoints all;
  for (size_t r = 0; r < workers.size(); ++r)
    all.push_back(transports::ucx::makeUcxEndpoint(workers[r], static_cast<int>(r),
                                                   static_cast<int>(workers.size()), layout));
  return all;
}

/// A variable, for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace tutti::tests
