// What an op event costs in instructions: a child makes some, its parent lets it run one instruction at a time and
// counts.
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>
#include "capture/clock.h"
#include "capture/op_events.h"
#include "sanitizers.h"

using namespace kineto_spyre::capture;
using namespace kineto_spyre::capture::testing;

namespace {

__attribute__((noinline)) void make_pairs(int pairs) {
  for (int i = 0; i < pairs; ++i) {
    push_op(static_cast<uint64_t>(i) + 1);
    pop_op();
  }
}

// Instructions of make_pairs(pairs), a few around it included; 0 if nobody can be traced here.
uint64_t instructions(int pairs, bool with_window) {
  auto* counting =
      static_cast<volatile int*>(mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(counting != MAP_FAILED);
  const pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    Config config;
    config.budget_bytes = 1 << 20;
    std::string error;
    if (with_window) {
      if (!prepare(config, &error)) _exit(3);
      open_window();
    }
    make_pairs(1);
    raise(SIGSTOP);
    *counting = 1;
    make_pairs(pairs);
    *counting = 2;
    _exit(0);
  }
  uint64_t count = 0;
  int status = 0;
  while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
    if (*counting == 1) ++count;
    const bool counted_all = *counting == 2;
    if (ptrace(counted_all ? PTRACE_CONT : PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0) break;
  }
  munmap(const_cast<int*>(counting), sizeof(int));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count : 0;
}

// A pair's own, the loop around it included.
double per_pair(bool with_window) {
  const uint64_t few = instructions(10, with_window);
  const uint64_t more = instructions(110, with_window);
  return few == 0 ? 0 : static_cast<double>(more - few) / 100;
}

}  // namespace

TEST_CASE("the events of an op cost at most 60 instructions, and next to none when the profiler is off") {
  if (kSanitizer || !has_fast_ticks()) SKIP_TEST("a sanitizer, or a machine without a cheap counter");
#ifndef __OPTIMIZE__
  SKIP_TEST("not optimised");
#endif
  const double off = per_pair(false);
  const double on = per_pair(true);
  if (on == 0) SKIP_TEST("a child can't be traced here");
  INFO("off " << off << ", on " << on << " instructions for begin and end and the loop that calls them");
  CHECK(on <= 60);
  CHECK(off <= 16);
  if (std::getenv("KINETO_SPYRE_TEST_VERBOSE") != nullptr) WARN("off " << off << ", on " << on);
}
