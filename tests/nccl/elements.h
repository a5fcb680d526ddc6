#ifndef TUTTI_TESTS_NCCL_ELEMENTS_H
#define TUTTI_TESTS_NCCL_ELEMENTS_H

/* Elements of every type as doubles, one at a time: a reference that has nothing in common with the
 * library's arithmetic. */

#include <nccl.h>

size_t element_bytes(ncclDataType_t type);
double get_element(ncclDataType_t type, const void* data, size_t index);
/* Dies when the type cannot hold the value exactly. */
void set_element(ncclDataType_t type, void* data, size_t index, double value);
int is_floating(ncclDataType_t type);
/* The distance of two neighbours at 1. */
double element_epsilon(ncclDataType_t type);

#endif
