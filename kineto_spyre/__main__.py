"""The command `kineto-spyre`. Each subcommand's module is imported when it is used, so that --help is instant."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# name -> (module with main(argv) -> exit code, what it does)
COMMANDS = {
    "demo": ("._demo", "run a model on an emulated Spyre under torch.profiler, and write its trace for TensorBoard"),
    "doctor": ("._doctor", "say what is installed, what is registered, what would be profiled, and what is wrong"),
    "device": ("._device_model", "print the emulated Spyre's cost model: how long kernels and copies last, and why"),
    "check": (".check", "check a trace: is it whole, and can the tools that read it do so"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kineto-spyre",
        description="IBM Spyre in PyTorch's own profiler.",
        epilog="kineto-spyre COMMAND --help tells a command's options.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and the PyTorch it was built for")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, summary) in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code: 0 well, 1 trouble found, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    # The command parses what follows its name itself.
    options = parser.parse_args(arguments[:1])
    if options.version:
        from . import __version__
        from ._build_info import TORCH_VERSION

        print(f"kineto-spyre {__version__}, built for PyTorch {TORCH_VERSION}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    from ._notices import SpyreProfilerError

    module = importlib.import_module(COMMANDS[options.command][0], __package__)
    try:
        code: int = module.main(arguments[1:])
        return code
    except SpyreProfilerError as error:
        print(f"kineto-spyre {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # `kineto-spyre ... | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
