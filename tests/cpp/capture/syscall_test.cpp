// A million records and op events without entering the kernel: the kernel itself is the witness. A seccomp filter turns
// each system call of the thread into a signal, whose handler counts it.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>

#include <catch2/catch.hpp>
#include "borrower.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

std::atomic<int> calls{0};
void count_call(int, siginfo_t*, void*) { calls.fetch_add(1); }

bool watch_system_calls() {
  struct sigaction action = {};
  action.sa_sigaction = count_call;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// In a child, which ends with it. 100: no filter to be had; 99: no session; 98: the witness sees nothing.
int calls_of_a_million() {
  Config config;
  config.budget_bytes = 256 << 20;
  std::string error;
  if (!prepare(config, &error)) return 99;
  open_window();
  Borrower borrower(1);
  push_op(1);
  pop_op();
  borrower.write();
  if (!watch_system_calls()) return 100;
  syscall(SYS_getppid);
  if (calls.exchange(0) != 1) return 98;
  for (int i = 0; i < 500'000; ++i) {
    push_op(7);
    borrower.write();
    borrower.write();
    pop_op();
  }
  return calls.load() < 90 ? calls.load() : 90;
}

}  // namespace

TEST_CASE("a million records and a million op events make no system call after a thread's first") {
  if (kSanitizer || kQemu) SKIP_TEST("a sanitizer's runtime, or qemu, makes system calls of its own");
  const pid_t pid = fork();
  if (pid == 0) _exit(calls_of_a_million());
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 100) SKIP_TEST("no seccomp filter can be had here");
  CHECK(WEXITSTATUS(status) == 0);
}
