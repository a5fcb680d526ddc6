#pragma once

// The TCP sockets of a UCX worker, which UCX keeps to itself. Found by what Linux tells of the
// descriptor that says when something comes (proc_pid_fdinfo(5)).

#include <vector>

namespace tutti::transports::ucx {

/// Those that `epoll` waits for, and those of epolls in it; what /proc does not tell is left out.
/// UCX has there all that it reads from, while their interface has an endpoint.
std::vector<int> tcpSocketsOf(int epoll);

/// Connected, and without room for what is sent by it.
bool isFull(int socket);

/// Full, and for half a second nothing has been sent by it, or nothing of that has been
/// acknowledged: its peer stands still, or is not reached.
bool isStuck(int socket);

}  // namespace tutti::transports::ucx
