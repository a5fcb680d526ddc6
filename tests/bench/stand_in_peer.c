/* A peer of the benchmark that does nothing in no time: its barrier is faster than any, and what it
   should have received is wrong. Its reduce does not return. */
#include <stdlib.h>
#include <unistd.h>

#include "bench/collectives/worker.h"

static void call(void* context, const struct worker_operation* c) {
  (void)context;
  while (c->collective == WORKER_REDUCE) pause();
}

int main(int argc, char** argv) {
  const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_WORLD_SIZE");
  if (argc != 2 || !rank || !size) return 2;
  const struct worker_library library = {NULL, atoi(rank), atoi(size), "Stand-in 1.2",
                                         NULL, NULL,       call,       NULL};
  return worker_main(&library, argv[1]);
}
