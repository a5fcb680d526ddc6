// The conformance suite over a simulated wire that loses, doubles, delays and reorders packets.

#include "tests/transports/conformance.h"
#include "tests/transports/sim/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Sim, TransportTest, ::testing::Values(simVirtual, simThreads, simWrapped),
                         fabricName);

}  // namespace tutti::tests
