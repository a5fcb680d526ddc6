#pragma once

/// \file
/// TMA (sm_90): copies of boxes of tensors between global and shared memory. A CUtensorMap, which
/// the host encodes, describes the tensor. One thread issues a copy.
///
/// The map is a kernel parameter, `const __grid_constant__ CUtensorMap`; pass its address.
/// Coordinates count elements, with the contiguous dimension first. For loads they may be negative
/// or beyond the end; there the box is filled with zeros. A box that is stored or added lies inside
/// the tensor.
///
/// Shared addresses are multiples of 128 bytes. If the map swizzles, they are multiples of whole
/// swizzle atoms (1024, 512 or 256 bytes). A load counts the whole box at its mbarrier. Stores see
/// generic writes only after fenceProxyAsyncShared(). Wait for stores with the functions of
/// bulk.cuh.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Loads the box at `at` to `to`, and counts its bytes at `barrier`.
TUTTI_PTX void tensorLoad(uint32_t to, const CUtensorMap* map, const int (&at)[1],
                          uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0])
        : "memory");
TUTTI_PTX void tensorLoad(uint32_t to, const CUtensorMap* map, const int (&at)[2],
                          uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1])
        : "memory");
TUTTI_PTX void tensorLoad(uint32_t to, const CUtensorMap* map, const int (&at)[3],
                          uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
TUTTI_PTX void tensorLoad(uint32_t to, const CUtensorMap* map, const int (&at)[4],
                          uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
TUTTI_PTX void tensorLoad(uint32_t to, const CUtensorMap* map, const int (&at)[5],
                          uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");

/// Loads the box into every block of the cluster whose bit is set in `blocks`. The data and the
/// barrier have the same offsets in the shared memory of each block.
TUTTI_PTX void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int (&at)[1],
                                   uint32_t barrier, uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%4}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(at[0])
        : "memory");
TUTTI_PTX void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int (&at)[2],
                                   uint32_t barrier, uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1])
        : "memory");
TUTTI_PTX void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int (&at)[3],
                                   uint32_t barrier, uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
TUTTI_PTX void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int (&at)[4],
                                   uint32_t barrier, uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
TUTTI_PTX void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int (&at)[5],
                                   uint32_t barrier, uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
        "r"(at[4])
        : "memory");

/// Stores the box from `from`. The store joins the thread's current bulk group.
TUTTI_PTX void tensorStore(const CUtensorMap* map, const int (&at)[1], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group "
        "[%0, {%2}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0])
        : "memory");
TUTTI_PTX void tensorStore(const CUtensorMap* map, const int (&at)[2], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1])
        : "memory");
TUTTI_PTX void tensorStore(const CUtensorMap* map, const int (&at)[3], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
TUTTI_PTX void tensorStore(const CUtensorMap* map, const int (&at)[4], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
TUTTI_PTX void tensorStore(const CUtensorMap* map, const int (&at)[5], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
        "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");

/// Adds the box to the tensor, element by element, in the map's type.
TUTTI_PTX void tensorReduceAdd(const CUtensorMap* map, const int (&at)[1], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0])
        : "memory");
TUTTI_PTX void tensorReduceAdd(const CUtensorMap* map, const int (&at)[2], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2, %3}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1])
        : "memory");
TUTTI_PTX void tensorReduceAdd(const CUtensorMap* map, const int (&at)[3], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
TUTTI_PTX void tensorReduceAdd(const CUtensorMap* map, const int (&at)[4], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
TUTTI_PTX void tensorReduceAdd(const CUtensorMap* map, const int (&at)[5], uint32_t from TUTTI_SITE)
    TUTTI_ASM(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group "
        "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");

/// Prefetches the map itself.
TUTTI_PTX void prefetchTensorMap(const CUtensorMap* map TUTTI_SITE)
    TUTTI_ASM("prefetch.tensormap [%0];" ::"l"(map)
              : "memory");

}  // namespace tutti::cuda::ptx
