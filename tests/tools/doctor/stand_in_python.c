/* Prints what it is told by the environment, as Python does with the code of `tutti doctor`. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  (void)argv;
  if (argc != 3) return 9;
  const char* text = getenv("STAND_IN_OUTPUT");
  if (text) fputs(text, stdout);
  fflush(stdout);
  if (getenv("STAND_IN_WAITS")) sleep(60);
  const char* status = getenv("STAND_IN_STATUS");
  return status ? atoi(status) : 0;
}
