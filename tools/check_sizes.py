#!/usr/bin/env python3
"""The size rule: no file of csrc/ and kineto_spyre/ has over 400 lines, and no function over 60.

A reason at the head excuses it: a comment or a line of the docstring, among the first 40 lines of a file or the first
12 of a function, that holds "Over 400 lines because" or "Over 60 lines because". Python is read as a syntax tree, and
C++ by lizard. Exit code 1 if the rule is broken.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

import lizard

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE_LINES = 400
FUNCTION_LINES = 60
SUFFIXES = (".cpp", ".h", ".py", ".pyi")


def excused(lines: list[str], limit: int) -> bool:
    return any(f"Over {limit} lines because" in line for line in lines)


def too_long(path: pathlib.Path) -> Iterator[str]:
    """A sentence for each rule that the file breaks."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > FILE_LINES and not excused(lines[:40], FILE_LINES):
        yield f"{name} has {len(lines)} lines; the limit is {FILE_LINES}. Split it."
    functions = python_functions(text) if path.suffix in (".py", ".pyi") else cpp_functions(path)
    for function, begin, end in functions:
        length = end - begin + 1
        if length > FUNCTION_LINES and not excused(lines[begin - 1 : begin + 11], FUNCTION_LINES):
            yield f"{name}:{begin}: {function} has {length} lines; the limit is {FUNCTION_LINES}. Split it."


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def cpp_functions(path: pathlib.Path) -> Iterator[tuple[str, int, int]]:
    """The same for C++."""
    for function in lizard.analyze_file(str(path)).function_list:
        if function.name.rpartition("::")[2] != "alignas":  # a class, which lizard takes for a function
            yield function.name, function.start_line, function.end_line


def main() -> int:
    files = sorted(
        path for room in ("csrc", "kineto_spyre") for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES
    )
    broken = [sentence for path in files for sentence in too_long(path)]
    print(*broken, sep="\n", end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
