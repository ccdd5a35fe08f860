#!/usr/bin/env bash
# Model-checks the lock-free parts of csrc/capture and of the emulated libaiupti's record_writer.h: all executions that
# C++'s memory model allows within a number of surprises (checker.cpp says which), not only those that this machine
# happens to show. Needs a compiler with -fsanitize=thread ($CXX, or g++), and nothing else. MODEL_LONG=1 takes one
# surprise more, and three flushes of the writer (minutes).
#
# publish, full, twice, wrap, wrap_two, late and stack run csrc/capture/pool.h and index_stack.h themselves, over static
# memory (stubs/), in_flight and scratch the headers of that name, and writer runs record_writer.h; handshake is the
# protocol of op_events.cpp, written out.
#
# A checker that finds nothing may be looking at nothing, so afterwards each order and count that the code relies on is
# taken away from a copy, and the checker must object. One is not: the release of the writer's `end`, which only shows
# where sequentially consistent operations are ordered otherwise than they were executed.
set -euo pipefail
cd "$(dirname "$0")"

compiler=${CXX:-g++}
more=${MODEL_LONG:+1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
"$compiler" -std=c++20 -O2 -Wall -Wextra -Werror -c checker.cpp -o "$work/checker.o"

# fresh_copy: the headers that may be changed, in $work/copy.
fresh_copy() {
  rm -rf "$work/copy"
  mkdir -p "$work/copy/capture" "$work/copy/emulated_aiupti"
  cp ../../csrc/capture/*.h "$work/copy/capture"
  cp ../../csrc/emulator/aiupti/include/emulated_aiupti/record_writer.h "$work/copy/emulated_aiupti"
}

# check <case> <surprises> [flags]: 0 if the checker has no objection, 1 if it has; other failures end the script.
check() {
  local case=$1 surprises=$2
  shift 2
  # membarrier() is a full fence in the owner, where its compiler fence is.
  case "$*" in *-DASYMMETRIC*) sed -i 's/atomic_signal_fence/atomic_thread_fence/' "$work"/copy/*/record_writer.h ;; esac
  "$compiler" -std=c++20 -O1 -w -fsanitize=thread -Dmain=model_main -I. -Istubs -I"$work/copy" "$@" \
    -c "$case.cpp" -o "$work/case.o"
  "$compiler" "$work/case.o" "$work/checker.o" -o "$work/case"
  local status=0
  "$work/case" $((surprises + ${more:-0})) >"$work/log" || status=$?
  [ "$status" = 0 ] && return 0
  grep -q '^Error:' "$work/log" && return 1
  echo "$case: the checker itself failed (exit code $status)"
  exit 1
}

# passes <case> <surprises> [flags]
passes() {
  fresh_copy
  if check "$@"; then
    printf '%-46s %s\n' "$*" "$(cat "$work/log")"
  else
    printf '%-46s FAILED\n' "$*"
    cat "$work/log"
    failures=$((failures + 1))
  fi
}

# must_fail <what> <header> <sed expression> <case> <surprises> [flags]
must_fail() {
  local what=$1 header=$2 change=$3
  shift 3
  fresh_copy
  if [ -n "$header" ]; then
    cp "$work/copy/$header" "$work/before"
    sed -i "$change" "$work/copy/$header"
    if cmp -s "$work/before" "$work/copy/$header"; then
      printf 'without %-45s FAILED: the change does not apply any more\n' "$what"
      failures=$((failures + 1))
      return
    fi
  fi
  if check "$@"; then
    printf 'without %-45s FAILED: %s finds nothing\n' "$what" "$1"
    failures=$((failures + 1))
  else
    printf 'without %-45s %s: %s\n' "$what" "$1" "$(sed -n 's/^Error: \(.*\), in execution.*/\1/p' "$work/log")"
  fi
}

passes publish 3
passes full 5
passes twice 5
passes wrap 5
passes wrap_two 3
passes late 5
passes stack 4
passes scratch 4
passes handshake 6
passes in_flight 5
passes writer 4 -DASYMMETRIC -DRECORDS=4
passes writer 4 -DSEQUENTIALLY_CONSISTENT -DRECORDS=4
if [ -n "$more" ]; then
  passes writer 4 -DASYMMETRIC -DRECORDS=4 -DFLUSHES=3
  passes writer 4 -DSEQUENTIALLY_CONSISTENT -DRECORDS=4 -DFLUSHES=3
fi

release='s/memory_order_release/memory_order_relaxed/g'
acquire='s/memory_order_acquire/memory_order_relaxed/g'
pool=capture/pool.h
stack=capture/index_stack.h
scratch=capture/scratch_buffers.h
writer=emulated_aiupti/record_writer.h
must_fail "the release of push_returned()" $pool "/!returned_.compare_exchange_weak/$release" publish 3
must_fail "the acquire of take_returned()" $pool "/returned_.exchange/$acquire" publish 3
must_fail "the release of IndexStack::push()" $stack "$release" wrap 5
must_fail "the acquire of IndexStack::pop()" $stack "$acquire" wrap 5
must_fail "the count of pops (ABA)" $stack 's/(head & kPops) + kOnePop/(head \& kPops)/' stack 4
must_fail "the compare-and-swap of claim()" $pool \
  's/compare_exchange_strong(expected, next/compare_exchange_strong(expected = cell(index).state.load(), next/' twice 5
must_fail "the release of complete_late()" $pool "/kLate : kReturned/$release" late 5
must_fail "the acquire of late()" $pool "/load(.*acquire) == kLate/$acquire" late 5
must_fail "the release of ScratchBuffers::complete()" $scratch "/store(kFree, std::memory_order_release/$release" scratch 4
must_fail "the acquire of ScratchBuffers::lend()" $scratch "/expected, kLent, std::memory_order_acquire/$acquire" \
  scratch 4
must_fail "the compare-and-swap of ScratchBuffers::lend()" $scratch 's/.*load(std::memory_order_relaxed) == kFree.*/if (/
  s/strong(expected, kLent/strong(expected = descriptors_[i].state.load(), kLent/' scratch 4
must_fail "the fence that membarrier() is, in op_events" "" "" handshake 6 -DWITHOUT_FENCE
must_fail "the order of callbacks in flight" capture/in_flight.h 's/memory_order_seq_cst/memory_order_relaxed/' in_flight 5

must_fail "the fence that membarrier() is, in the writer" $writer 's/std::atomic_signal_fence(.*);//' \
  writer 3 -DASYMMETRIC
must_fail "the one side that a flush takes at most" $writer 's/^      break;$//' writer 4 -DASYMMETRIC -DRECORDS=4
must_fail "the wait for a change before closing" $writer '0,/while (changing_/s/while (changing_/while (false \&\& changing_/' \
  writer 3 -DASYMMETRIC
must_fail "the wait for a change after closing" $writer '/gives the buffer back now/{n;s/while (/while (false \&\& /}' \
  writer 4 -DASYMMETRIC -DRECORDS=4
must_fail "the wait for an odd cursor" $writer 's/while (cursor % 2 != 0)/while (false)/' writer 3 -DASYMMETRIC
must_fail "the release of the cursor" $writer \
  's/side.cursor.store(cursor + bytes, std::memory_order_release)/side.cursor.store(cursor + bytes, std::memory_order_relaxed)/' \
  writer 3 -DASYMMETRIC
must_fail "the order of cursor and end" $writer \
  's/side.cursor.exchange(cursor | 1, std::memory_order_seq_cst)/side.cursor.exchange(cursor | 1, std::memory_order_relaxed)/' \
  writer 3 -DSEQUENTIALLY_CONSISTENT

exit $((failures != 0))
