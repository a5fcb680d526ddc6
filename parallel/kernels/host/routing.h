#pragma once

// A router of experts on the host: who goes where, the rows that are moved for it, and gradients.
// One pass over the rows each, in their order; sums within a row are float64. Operands were
// checked; experts and places, which are elements, are here.

#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/kernels.h"

namespace tutti::parallel::host {

template <class T>
void route(const RouteArgs& args);
void countChoices(const CountChoicesArgs& args);
void placeTokens(const PlaceTokensArgs& args);
template <class T>
RouterLosses routerGradient(const RouterGradientArgs& args);
template <class T>
void spreadRows(const SpreadRowsArgs& args);
template <class T>
void combineRows(const CombineRowsArgs& args);
template <class T>
void rowDots(const RowDotsArgs& args, const ElementwiseKernels<T>& elementwise);

}  // namespace tutti::parallel::host
