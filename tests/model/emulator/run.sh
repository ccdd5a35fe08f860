#!/usr/bin/env bash
# Model-checks csrc/emulator/aiupti/include/emulated_aiupti/record_writer.h itself with GenMC, as ../run.sh does csrc/capture: one owner, one flusher,
# every execution that C++'s memory model allows. Without genmc: exit status 77. MODEL_LONG=1 also takes four records
# and three flushes (minutes).
#
# Afterwards each thing that the writer relies on is taken away from a copy, and the checker must object.
set -euo pipefail
cd "$(dirname "$0")"

genmc=${GENMC:-$(command -v genmc || true)}
if [ -z "$genmc" ]; then
  echo "skipped: genmc is not installed (see ../run.sh)"
  exit 77
fi
work=$(mktemp -d)
mkdir -p "$work/emulated_aiupti" "$work/sys"
# The system's headers are not for the checker; a spin that yields is a spin.
touch "$work/sched.h" "$work/unistd.h" "$work/sys/syscall.h"
header=$work/emulated_aiupti/record_writer.h
failures=0

# prepare <flags>: a fresh copy. membarrier() is a full fence in the owner, where its compiler fence is.
prepare() {
  sed 's/sched_yield()/void()/' ../../../csrc/emulator/aiupti/include/emulated_aiupti/record_writer.h >"$header"
  case "$*" in *ASYMMETRIC*) sed -i 's/atomic_signal_fence/atomic_thread_fence/' "$header" ;; esac
}

check() {
  timeout 1800 "$genmc" --disable-estimation --disable-warn-on-unfreed-memory -- -std=c++20 -O1 -w -fno-vectorize \
    -fno-slp-vectorize -I"$work" "$@" writer.cpp >"$work/log" 2>&1
}

passes() {
  prepare "$@"
  if check "$@"; then
    printf '%-52s no error in %s executions\n' "$*" "$(sed -n 's/.*complete executions explored: //p' "$work/log")"
  else
    printf '%-52s FAILED\n' "$*"
    cat "$work/log"
    failures=$((failures + 1))
  fi
}

# must_fail <what> <sed expression> <flags>
must_fail() {
  local what=$1 change=$2
  shift 2
  prepare "$@"
  cp "$header" "$work/before"
  sed -i "$change" "$header"
  if cmp -s "$work/before" "$header"; then
    printf 'without %-44s FAILED: the change does not apply any more\n' "$what"
    failures=$((failures + 1))
  elif check "$@"; then
    printf 'without %-44s FAILED: it finds nothing\n' "$what"
    failures=$((failures + 1))
  elif grep -qE '^Error:' "$work/log"; then
    printf 'without %-44s %s\n' "$what" "$(grep -m1 -E '^Error:' "$work/log")"
  else
    printf 'without %-44s FAILED: the checker itself did\n' "$what"
    cat "$work/log"
    failures=$((failures + 1))
  fi
}

passes -DASYMMETRIC
passes -DSEQUENTIALLY_CONSISTENT
if [ -n "${MODEL_LONG:-}" ]; then
  passes -DASYMMETRIC -DRECORDS=4 -DFLUSHES=3
  passes -DSEQUENTIALLY_CONSISTENT -DRECORDS=4 -DFLUSHES=3
fi
must_fail "the fence that membarrier() is" 's/std::atomic_thread_fence(.*);//' -DASYMMETRIC
must_fail "the one side that a flush takes at most" 's/^      break;$//' -DASYMMETRIC -DRECORDS=4
must_fail "the wait for a change before closing" '0,/while (changing_/s/while (changing_/while (false \&\& changing_/' -DASYMMETRIC
must_fail "the wait for a change after closing" '/gives the buffer back now/{n;s/while (/while (false \&\& /}' -DASYMMETRIC -DRECORDS=4
must_fail "the wait for an odd cursor" 's/while (cursor % 2 != 0)/while (false)/' -DASYMMETRIC
must_fail "the release of the cursor" 's/side.cursor.store(cursor + bytes, std::memory_order_release)/side.cursor.store(cursor + bytes, std::memory_order_relaxed)/' -DASYMMETRIC
must_fail "the release of the end" '/kCounted,$/{n;s/release/relaxed/}' -DASYMMETRIC
must_fail "the order of cursor and end" 's/side.cursor.exchange(cursor | 1, std::memory_order_seq_cst)/side.cursor.exchange(cursor | 1, std::memory_order_relaxed)/' -DSEQUENTIALLY_CONSISTENT

rm -r "$work"
exit $((failures != 0))
