#include "src/base/process.h"

#include <pthread.h>

#include <atomic>

namespace tutti::base {
namespace {

std::atomic<uint64_t> generation{1};
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint64_t processGeneration() { return generation.load(std::memory_order_relaxed); }

}  // namespace tutti::base
