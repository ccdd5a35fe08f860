#!/usr/bin/env python3
"""The reference pages' tables, made of what they describe, so that they can't drift.

In: the package's sources in this checkout: the table of diagnostics, the docstrings of the trace's metadata, the table
of environment variables, the parsers of the commands, all messages. Out: Markdown, one function for each. docs/conf.py
puts it in place of a line `<!-- generated: NAME -->` of a page; by hand: `python tools/reference.py NAME`. Needs no
torch.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "kineto_spyre"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def diagnostics() -> str:
    """Each code, with its sentences."""
    rows = json.loads((PACKAGE / "diagnostics.json").read_text(encoding="utf-8"))["diagnostics"]
    parts = []
    for row in rows:
        sentences = dict.fromkeys((row["one"], row.get("many", row["one"])))
        parts.append(
            f"## {row['code']}\n\n{row['severity'].capitalize()}; "
            f"{'data is missing' if row['missing'] else 'no data is missing'}.\n\n"
            + "\n".join(f"- {sentence}" for sentence in sentences)
            + f"\n\nWhat to do: {row['do']}"
        )
    return "\n\n".join(parts)


def environment() -> str:
    """Each variable that is read when a program runs."""
    from kineto_spyre import _environment

    return _table(
        ("variable", "values", "default", "meaning", "cost"),
        ((f"`{v.name}`", v.values, v.default, v.meaning, v.cost) for v in _environment.VARIABLES),
    )


def _attributes(docstring: str) -> dict[str, str]:
    """The section `Attributes:` of a docstring, by name."""
    _, _, section = docstring.partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name, found[start[1]] = start[1], start[2]
        elif line.startswith("        ") and name:
            found[name] += " " + line.strip()
        elif line.strip():
            break
    return found


def _classes(file: str, *names: str) -> Iterable[tuple[str, str, dict[str, tuple[str, str]]]]:
    """Classes of a file: name, first paragraph of the docstring, and for each field its type and what it means."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name in names:
        node = classes[name]
        bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
        types = {
            field.target.id: ast.unparse(field.annotation)
            for part in (node, *bases)
            for field in part.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        text = inspect.cleandoc(ast.get_docstring(node) or "")
        meanings = _attributes(text)
        if set(types) != set(meanings):
            raise ValueError(f"{file}: the docstring of {name} lists other fields than the class has.")
        yield name, text.partition("\n\n")[0], {field: (types[field], meanings[field]) for field in meanings}


def _described(file: str, *names: str) -> str:
    parts = []
    for name, text, fields in _classes(file, *names):
        rows = ((f"`{field}`", f"`{kind}`", meaning) for field, (kind, meaning) in fields.items())
        parts.append(f"### {name}\n\n{text}\n\n{_table(('name', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts)


def metadata() -> str:
    """The keys of the trace's metadata `kineto_spyre`."""
    return _described("profiler/_details.py", "Details", "Versions", "FoundDiagnostic", "ClockDetails", "RecordSize")


def session() -> str:
    """The fields of last_session()."""
    return "\n\n".join(
        (_described("profiler/_session.py", "Session", "DeviceClock"), _described("diagnostics.py", "Diagnostic"))
    )


def command_line() -> str:
    """Each command's own --help."""
    from kineto_spyre import cli

    parts = []
    for name in cli.names():
        command = cli.load(name)
        description, _, codes = command.DESCRIPTION.partition("Exit code: ")
        parser = argparse.ArgumentParser(
            prog=f"{cli.PROGRAM} {name}",
            description=description,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
        )
        command.add_arguments(parser)
        usage = re.sub(r"\n{2,}", "\n\n", parser.format_help()).rstrip()
        parts.append(f"## {name}\n\n{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.\n\n```text\n{usage}\n```")
        parts.append(f"Exit code: {codes}")
    return "\n\n".join(parts)


def messages() -> str:
    """All sentences that a user may see."""
    sys.path.insert(0, str(ROOT / "tools"))
    import messages as collector

    return collector.page(collector.collect()).partition("\n\n")[2]


GENERATED = {
    make.__name__.replace("_", "-"): make
    for make in (diagnostics, environment, metadata, session, command_line, messages)
}
_MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """A page with its marks replaced.

    Raises:
        KeyError: there is no such table.
    """
    return _MARK.sub(lambda mark: GENERATED[mark[1]](), page)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    chosen = sys.argv[1:]
    if not chosen or any(name not in GENERATED for name in chosen):
        sys.exit(f"usage: {sys.argv[0]} NAME ...; the names are {', '.join(GENERATED)}")
    print("\n\n".join(GENERATED[name]() for name in chosen))
