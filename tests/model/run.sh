#!/usr/bin/env bash
# Model-checks the lock-free parts of csrc/capture with GenMC: every execution that C++'s memory model (RC11) allows,
# not only those that this machine happens to show. Needs `genmc` (github.com/MPI-SWS/genmc, 0.10 or newer, built with
# LLVM 14) on the path or in $GENMC; without it there is nothing to do, and exit status 77 says so. 0.10.3 falls over its
# own BUG_ON(i == 0) in src/Support/NameInfo.cpp while it prints what it found: return "" there.
#
# publish, full, twice, wrap, wrap_two, late and stack run csrc/capture/pool.h and index_stack.h themselves, over static
# memory (stubs/), in_flight and scratch the headers of that name; handshake is the protocol of op_events.cpp, written out.
#
# A checker that finds nothing may be looking at nothing, so afterwards each order and count that the code relies on is
# taken away from a copy, and the checker must object.
set -euo pipefail
cd "$(dirname "$0")"

genmc=${GENMC:-$(command -v genmc || true)}
if [ -z "$genmc" ]; then
  echo "skipped: genmc is not installed (see $0)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/csrc/capture"
original=../../csrc/capture
failures=0

# check <name> <source tree> <case> [flags]: 0 if the checker has no objection.
check() {
  local tree=$1 case=$2
  shift 2
  timeout 1800 "$genmc" --disable-estimation --disable-warn-on-unfreed-memory -- -std=c++20 -O1 -fno-vectorize \
    -fno-slp-vectorize -I. -Istubs -I"$tree" "$@" "$case.cpp" >"$work/log" 2>&1
}

for case in publish full twice wrap wrap_two late stack scratch handshake in_flight; do
  if check ../../csrc "$case"; then
    printf '%-12s no error in %s executions\n' "$case" "$(sed -n 's/.*complete executions explored: //p' "$work/log")"
  else
    printf '%-12s FAILED\n' "$case"
    cat "$work/log"
    failures=$((failures + 1))
  fi
done

# must_fail <what> <file> <sed expression> <case> [flags]
must_fail() {
  local what=$1 file=$2 change=$3 case=$4
  shift 4
  cp "$original"/{pool,index_stack,in_flight,scratch_buffers}.h "$work/csrc/capture"
  if [ -n "$file" ]; then
    sed -i "$change" "$work/csrc/capture/$file"
    if cmp -s "$original/$file" "$work/csrc/capture/$file"; then
      printf 'without %-45s FAILED: the change does not apply any more\n' "$what"
      failures=$((failures + 1))
      return
    fi
  fi
  if check "$work/csrc" "$case" "$@"; then
    printf 'without %-45s FAILED: %s finds nothing\n' "$what" "$case"
    failures=$((failures + 1))
  elif grep -qE '^Error:' "$work/log"; then
    printf 'without %-45s %s: %s\n' "$what" "$case" "$(grep -m1 -E '^Error:' "$work/log")"
  else
    printf 'without %-45s FAILED: the checker itself did\n' "$what"
    cat "$work/log"
    failures=$((failures + 1))
  fi
}

release='s/memory_order_release/memory_order_relaxed/g'
acquire='s/memory_order_acquire/memory_order_relaxed/g'
must_fail "the release of push_returned()" pool.h "/!returned_.compare_exchange_weak/$release" publish
must_fail "the acquire of take_returned()" pool.h "/returned_.exchange/$acquire" publish
must_fail "the release of IndexStack::push()" index_stack.h "$release" wrap
must_fail "the acquire of IndexStack::pop()" index_stack.h "$acquire" wrap
must_fail "the count of pops (ABA)" index_stack.h 's/(head & kPops) + kOnePop/(head \& kPops)/' stack
must_fail "the compare-and-swap of claim()" pool.h 's/compare_exchange_strong(expected, next/compare_exchange_strong(expected = cell(index).state.load(), next/' twice
must_fail "the release of complete_late()" pool.h "/kLate : kReturned/$release" late
must_fail "the acquire of late()" pool.h "/load(.*kLate/$acquire" late
must_fail "the release of ScratchBuffers::complete()" scratch_buffers.h "/store(kFree, std::memory_order_release/$release" scratch
must_fail "the acquire of ScratchBuffers::lend()" scratch_buffers.h "/expected, kLent, std::memory_order_acquire/$acquire" scratch
must_fail "the compare-and-swap of ScratchBuffers::lend()" scratch_buffers.h 's/.*load(std::memory_order_relaxed) == kFree.*/if (/; s/strong(expected, kLent/strong(expected = descriptors_[i].state.load(), kLent/' scratch
must_fail "the fence that membarrier() is" "" "" handshake -DWITHOUT_FENCE
must_fail "the order of callbacks in flight" in_flight.h 's/memory_order_seq_cst/memory_order_relaxed/' in_flight

exit $((failures != 0))
