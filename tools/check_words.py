#!/usr/bin/env python3
"""One thing has one name: words that the project has left, and what each is called now.

Reads every text file that git knows, names of files as well. A pattern is as narrow as it must be for words that mean
something else elsewhere: a library's function, the fault that loses a device, a table's row. Exit code 1 if one is
found. docs/reference/glossary.md holds the words that are used.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
ANY, CPP, PYTHON, CODE = r"", r"\.(h|cpp|txt|cmake)$", r"\.pyi?$", r"\.(h|cpp|py|pyi)$"
# Left word, what it is called, in which files, the pattern.
WORDS = [
    ("lane", "track", ANY, r"\blanes?\b"),
    ("row (of a trace)", "track", CPP, r"\b[Rr]ow_(of|for)\b"),
    ("note of an op", "op event, push_op, pop_op", ANY, r"\bnote_op\w*|\bop notes?\b|\bnotes of ops\b|\bop_notes?\b"),
    ("Maker", "reader", CPP, r"\b(class|struct) \w*Maker\b"),
    ("walk", "iterate, record iterator, records_read", ANY, r"(?<!os\.)(?<!ast\.)\bwalk(s|ed|ers?|ing)?\b(?!-through)"),
    ("straight, long or short way", "fast path, slow path", ANY, r"\b(straight|long|short)[ _]ways?\b"),
    (
        "lost, refused records",
        "dropped, invalid",
        ANY,
        r"\b(lost|refused) records?\b|\brecords? (was|were) (lost|refused)\b",
    ),
    (
        "refused, lost, outside",
        "invalid, dropped, out_of_window",
        CPP,
        r"\b(trace|drops?|result)\.(refused|lost|outside)\b",
    ),
    ("crowded", "tracks_exhausted", ANY, r"\bcrowded\b"),
    (
        "Reserve, Pages",
        "PrefaultedRegion",
        CPP,
        r"\b(class |struct |trace::|capture::)(Reserve|Pages)\b|\btrace/pages\.h",
    ),
    ("Launches", "CorrelationTable", CPP, r"\b(class|struct) Launches\b"),
    ("Trail", "TimelineEffect", CPP, r"\bTrail\b"),
    ("put off", "pending", ANY, r"\bput_off\b"),
    ("markers", "profiler stubs", r"^csrc/kineto/", r"\bmarkers?\b"),
    ("attic", "retired pools", ANY, r"\battics?\b"),
    ("homeless", "unattributed drops", ANY, r"\bhomeless\b"),
    ("visitor", "in-flight callback; a function that is called is `visit`", ANY, r"\bvisitors?\b"),
    ("harvest", "capture result", ANY, r"\bharvest(s|ed)?\b"),
    (
        "whole, native ops",
        "composite_ops, factory_ops",
        r"^csrc/device/",
        r"\b(whole|native)_ops?\b|device/(whole|native)\.(h|cpp)",
    ),
    ("boxed", "cpu_fallback", r"^csrc/device/", r"device/boxed\b|\b(class|struct) Boxed\b"),
    ("seen_from, seat", "alias_on_device, storage_alias", ANY, r"\bseen_from\b|\b(class|struct) Seat\b"),
    ("emulator.torch_spyre", "emulator._device_module", r"^(?!CHANGELOG)", r"\bemulator[./]torch_spyre\b"),
    ("Item", "WorkItem", r"^csrc/", r"\b(class|struct) Item\b"),
    ("Call", "NamedCall, CpuCall, CallInProgress, HostCall", r"^csrc/", r"\b(class|struct) Call\b"),
    ("Timeline", "OpTimeline, TimelineEffect", r"^csrc/", r"\b(class|struct) Timeline\b"),
    ("Device (of a pass)", "DeviceTracks, DeviceEvidence", r"^csrc/trace/", r"\b(class|struct) Device\b"),
    ("Clock", "DeviceClock, EmulatedClock, ClockPoint, HostClock", r"^csrc/", r"\b(class|struct) Clock\b"),
    ("notes", "op events", r"^csrc/", r"\b[Nn]otes\b"),
]
# This list, and the rules of tests that name the words.
EXEMPT = {"tools/check_words.py", "tests/python/package/test_words.py", "tests/python/package/test_messages.py"}


def found(name: str, text: str) -> Iterator[str]:
    """A sentence for each line of the file `name` that has a word of the list, and for its name."""
    for line, content in [(0, name), *enumerate(text.splitlines(), 1)]:
        for word, instead, files, pattern in WORDS:
            if re.search(files, name) and (hit := re.search(pattern, content, re.IGNORECASE if files == ANY else 0)):
                yield f"{name}:{line}: {hit[0]!r} is the old word {word!r}; write {instead}."


def main() -> int:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    sentences = []
    for name in sorted(set(names.split("\0")) - EXEMPT - {""}):
        try:
            sentences += found(name, (ROOT / name).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, FileNotFoundError):  # a picture, or deleted and not committed
            continue
    print(*sentences, sep="\n", end="\n" if sentences else "")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
