#pragma once

#include "tests/transports/fabric.h"
#include "transports/tcp/endpoint.h"

namespace tutti::tests {

/// A hub on the loopback.
std::shared_ptr<transports::tcp::TcpHub> loopbackHub(const std::string& host = "127.0.0.1");

std::unique_ptr<Fabric> tcpThreads();    ///< ranks are threads, each with its hub
std::unique_ptr<Fabric> tcpProcesses();  ///< ranks are forked processes
std::unique_ptr<Fabric> tcpStreams();    ///< threads with several streams between two, over IPv6
std::unique_ptr<Fabric> tcpSealed();     ///< threads that encrypt
std::unique_ptr<Fabric> tcpSealedProcesses();

}  // namespace tutti::tests
