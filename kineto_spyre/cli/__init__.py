"""The command `kineto-spyre`: one file a command.

A module of this package whose name has no leading underscore is a command of that name (`_` in a file's name is `-` in
the command's). It holds

    SUMMARY                 one line for `kineto-spyre --help`
    DESCRIPTION             what the command does and its exit codes, for its own --help
    add_arguments(parser)   declares its arguments
    run(options)            does the work and returns the exit code

and imports at its top only what is cheap: everything else is imported in `run`, so that --help is instant. To add a
command, add a file; nothing else must be changed.

Exit codes of every command: 0 it went well and nothing was found, 1 trouble was found or the work could not be done,
2 the usage was wrong or an input could not be read, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

PROGRAM = "kineto-spyre"


class Command(Protocol):
    """What a command's module holds."""

    SUMMARY: str
    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Does the work; returns the exit code."""


def names() -> list[str]:
    """The commands, in the order of the alphabet. Imports none of them."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def load(name: str) -> Command:
    """The module of a command that `names` lists."""
    return cast(Command, importlib.import_module(f".{name.replace('-', '_')}", __name__))


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with the subparsers of the commands that are wanted."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="IBM Spyre in PyTorch's own profiler.",
        epilog=f"{PROGRAM} COMMAND --help describes the options and exit codes of a command.",
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version, and the PyTorch that it was built for"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in wanted:
        command = load(name)
        command.add_arguments(commands.add_parser(name, help=command.SUMMARY, description=command.DESCRIPTION))
    return parser


@contextmanager
def _told(command: str) -> Iterator[None]:
    """The readers' warnings of traces, as sentences of the command, each once."""
    told: set[str] = set()

    def tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__name__ != "LaterVersion":
            usual(message, category, *where, **more)
        elif str(message) not in told:
            told.add(str(message))
            print(f"{PROGRAM} {command}: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.showwarning = tell
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code (the module's docstring lists them)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    known = names()
    # Only a known command in the first place spares the import of the others.
    parser = _parser(arguments[:1] if arguments and arguments[0] in known else known)
    options = parser.parse_args(arguments)
    if options.version:
        from .. import __version__
        from .._build_info import TORCH_VERSION

        print(f"{PROGRAM} {__version__}, built for PyTorch {TORCH_VERSION}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    from .._notices import SpyreProfilerError

    try:
        with _told(options.command):
            return load(options.command).run(options)
    except SpyreProfilerError as error:
        print(f"{PROGRAM} {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # `kineto-spyre ... | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
