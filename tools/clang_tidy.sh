#!/usr/bin/env bash
# clang-tidy over every source of csrc/, on all cores, by LLVM's own runner. Exit code 1 if it finds anything.
#
# Configures the build once, for the flags of each file; nothing is compiled. Arguments go to run-clang-tidy:
# `tools/clang_tidy.sh csrc/trace` keeps it to a folder, `-checks=...` to some checks.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="$PWD/.venv/bin:$PATH"
cmake -S . -B build/tidy -G Ninja -Dpybind11_DIR="$(python -m pybind11 --cmakedir)" >/dev/null
run-clang-tidy.py -p build/tidy -quiet -hide-progress -j "$(nproc)" -source-filter '.*/csrc/.*' "$@"
