/* nccl_api [NAME]: every case, or those whose names begin with NAME. Built with Tutti's nccl.h and
 * with the CUDA toolkit's, and run with Tutti's library both times. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { kCaseSeconds = 100 };

static int run_case(const Case* one) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kCaseSeconds);
    one->run();
    exit(0);
  }
  int status = -1;
  const int well =
      pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  printf("%s %s\n", well ? "ok  " : "FAIL", one->name);
  return well;
}

int main(int argc, char** argv) {
  const char* prefix = argc > 1 ? argv[1] : "";
  const Case* files[] = {library_cases, life_cases, collective_cases, group_cases, failure_cases};
  int run = 0, well = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i)
    for (const Case* one = files[i]; one->name; ++one) {
      if (strncmp(one->name, prefix, strlen(prefix)) != 0) continue;
      ++run;
      well += run_case(one);
    }
  printf("%d of %d cases are well\n", well, run);
  return run > 0 && well == run ? 0 : 1;
}
