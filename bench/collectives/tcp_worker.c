/* The limit between hosts: a rank that streams to the next one what a ring's AllReduce of so many
   bytes sends, 2 (n-1)/n of them, while it takes as much from the one before, over a plain TCP
   connection each. TUTTI_RANK and TUTTI_WORLD_SIZE say who it is, TUTTI_BENCH_NEXT the next rank's
   IPv4 address. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "commands.h"

enum { PORT = 29531, TRIES = 100 };

struct ring {
  int rank, size;
  int next, previous; /* sockets */
};

/* As many bytes as may go now. Returns what is left, or -1. */
static ssize_t advance(int fd, char* data, ssize_t left, int sends) {
  const ssize_t n = sends ? send(fd, data, (size_t)left, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : recv(fd, data, (size_t)left, MSG_DONTWAIT);
  if (n > 0) return left - n;
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? left : -1;
}

/* Sends and receives `bytes` at once, either of them none where its memory is NULL. */
static int stream(const struct ring* ring, char* out, char* in, ssize_t bytes) {
  ssize_t to_send = out ? bytes : 0, to_receive = in ? bytes : 0;
  while (to_send > 0 || to_receive > 0) {
    struct pollfd sockets[2] = {{to_send > 0 ? ring->next : -1, POLLOUT, 0},
                                {to_receive > 0 ? ring->previous : -1, POLLIN, 0}};
    if (poll(sockets, 2, 60000) <= 0) return 0;
    if (sockets[0].revents) to_send = advance(ring->next, out + bytes - to_send, to_send, 1);
    if (sockets[1].revents)
      to_receive = advance(ring->previous, in + bytes - to_receive, to_receive, 0);
    if (to_send < 0 || to_receive < 0) return 0;
  }
  return 1;
}

/* A token goes round twice: all are there when it comes by again. */
static int barrier(const struct ring* ring) {
  char token = 1;
  for (int turn = 0; turn < 2; ++turn)
    if (ring->rank == 0) {
      if (!stream(ring, &token, NULL, 1) || !stream(ring, NULL, &token, 1)) return 0;
    } else {
      if (!stream(ring, NULL, &token, 1) || !stream(ring, &token, NULL, 1)) return 0;
    }
  return 1;
}

static char value(int rank, uint32_t call) { return (char)(rank + 16u * call); }

static double ring_of_bytes(void* context, const struct worker_command* command, uint32_t call) {
  const struct ring* ring = (const struct ring*)context;
  const size_t bytes =
      (size_t)(command->bytes * 2 * (uint64_t)(ring->size - 1) / (uint64_t)ring->size);
  char* out = (char*)malloc(bytes);
  char* in = (char*)malloc(bytes);
  double time = NAN;
  if (out && in) {
    memset(out, value(ring->rank, call), bytes);
    memset(in, 0, bytes);
    if (barrier(ring)) {
      const double begin = now_ns();
      const int streamed = stream(ring, out, in, (ssize_t)bytes);
      time = now_ns() - begin;
      const char expected = value((ring->rank + ring->size - 1) % ring->size, call);
      int right = streamed;
      for (size_t i = 0; i < bytes; ++i) right &= in[i] == expected;
      if (!right) time = NAN;
    }
  }
  free(out);
  free(in);
  return time;
}

static int connect_to(const char* host) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return -1;
  for (int i = 0; i < TRIES; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof address) == 0) return fd;
    close(fd);
    usleep(100000); /* the other one has not begun to listen */
  }
  return -1;
}

static int join(struct ring* ring, const char* next) {
  const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      bind(listener, (const struct sockaddr*)&address, sizeof address) != 0 ||
      listen(listener, 1) != 0)
    return 0;
  ring->next = connect_to(next);
  ring->previous = ring->next < 0 ? -1 : accept(listener, NULL, NULL);
  close(listener);
  return ring->previous >= 0 &&
         setsockopt(ring->next, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

int main(int argc, char** argv) {
  const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_WORLD_SIZE"),
             *next = getenv("TUTTI_BENCH_NEXT");
  if (argc != 2 || !rank || !size || !next) return 2;
  struct ring ring = {atoi(rank), atoi(size), -1, -1};
  if (ring.size < 2 || !join(&ring, next)) {
    perror("tcp_worker: the ring");
    return 1;
  }
  return obey_commands(argv[1], ring.rank, ring_of_bytes, &ring);
}
