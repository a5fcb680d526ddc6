#pragma once

// Which rows are looked up, wherever they are moved: by the reference kernels and by those of
// vectorized/. What is not there is -1.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// The row of an id in a part of a vocabulary, or -1 where it is elsewhere.
TUTTI_DEVICE int32_t rowIn(const VocabularyPart& part, int64_t id) {
  return id >= part.first && id < part.first + part.here ? int32_t(id - part.first) : -1;
}

/// Of a choice; -1 where it is dropped.
TUTTI_DEVICE int32_t placedRow(const Placed& x, int64_t choice) {
  const int32_t place = x.places[choice];
  return place >= 0 && place < x.placedRows ? place : -1;
}
template <class T>
TUTTI_DEVICE T weightOf(const Placed& x, int64_t choice) {
  return x.weights.data == nullptr ? T(1) : load<T>(x.weights, choice);
}

}  // namespace tutti::parallel::cuda
