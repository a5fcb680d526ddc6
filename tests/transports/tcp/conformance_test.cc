// The conformance suite over TCP: between threads and between processes, by one stream and by
// several, plain and sealed.

#include "tests/transports/conformance.h"
#include "tests/transports/tcp/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Tcp, TransportTest,
                         ::testing::Values(tcpThreads, tcpProcesses, tcpStreams, tcpSealed,
                                           tcpSealedProcesses),
                         fabricName);

}  // namespace tutti::tests
