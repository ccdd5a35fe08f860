"""`kineto-spyre annotate`: the origin of each kernel in a trace, shown by viewers at a click."""

from __future__ import annotations

import argparse
import os
import sys

SUMMARY = "write source lines, modules and ATen ops of kernels into a trace"
DESCRIPTION = (
    "Reads where kernels come from (spyre_provenance.json of torch-spyre, or Inductor's "
    "inductor_provenance_tracking_node_mappings.json) and writes it into the arguments of a trace's kernels. Exit "
    "code: 0 it was written, 1 no kernel's origin is known or the trace can't be written, 2 a file can't be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace: Chrome JSON, plain or gzip")
    parser.add_argument("--provenance", metavar="FILE", required=True, help="what the compiler wrote")
    parser.add_argument("--out", metavar="FILE", help="write here, and do not change TRACE")
    parser.add_argument("--force", action="store_true", help="replace the file of --out if it exists")


def run(options: argparse.Namespace) -> int:
    from ..provenance import ProvenanceError, annotate, load
    from ..traces import Unreadable
    from ..traces.json_text import shown

    def fail(sentence: str, code: int) -> int:
        print(f"kineto-spyre annotate: {sentence}", file=sys.stderr)
        return code

    target = options.out or options.trace
    if options.out and os.path.exists(options.out) and not options.force:
        return fail(f"{options.out} exists; name another file, or pass --force to replace it.", 1)
    try:
        known = load(options.provenance)
        kernels, count = annotate(options.trace, known, target)
    except ProvenanceError as error:
        return fail(str(error), 2)
    except Unreadable as error:
        return fail(f"{shown(options.trace)[1:-1]} {error}", 2)
    except OSError as error:
        return fail(f"{target} can't be written ({error.strerror or error}); choose another with --out.", 1)
    whole = "1 kernel" if kernels == 1 else f"{kernels:,} kernels"
    if not kernels:
        return fail(f"{options.trace} holds no kernel as Kineto writes them, so nothing was annotated.", 1)
    if not count:
        return fail(
            f"{options.provenance} knows none of the {whole} of {options.trace}; it belongs to another compilation. "
            "Profile and compile in one run, with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1.",
            1,
        )
    print(f"{target}: the origin of {count:,} of {whole} was written into their arguments.")
    return 0
