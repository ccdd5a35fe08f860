#!/usr/bin/env python3
"""The page of all messages: each sentence that a user of this package may see, by room and file.

In: the sources of kineto_spyre/ (read as syntax trees), of csrc/ (read by a small lexer), and the table
kineto_spyre/diagnostics.json. Out: docs/reference/messages.md, or the standard output. Nothing is imported or run, the
order is that of the files, and there are no line numbers, so the page changes only with a sentence.

A message is a string with two words or more that is no docstring, no annotation, no pattern and no markup. What is
computed shows as an expression in braces.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ROOT = pathlib.Path(__file__).resolve().parents[1]
Kind = Literal["error", "warning", "help", "text"]

# Strings for another program than the user's eye, by file: markup, and what a kernel is called.
NOT_FOR_USERS = ("kineto_spyre/report/page.py", "kineto_spyre/report/plots.py")
_WORDS = re.compile(r"[A-Za-z][A-Za-z'_./-]*[,:;]? +[({'\"<`]*[A-Za-z{]")
_PATTERN = re.compile(r"\\[sdwbS]|\(\?|\[\^|\)\*|</|/>|^<\w|^\s*def |^import |^from \w+ import ")


@dataclass(frozen=True)
class Message:
    """One text.

    Attributes:
        file: the path from the root of the repository.
        kind: "error" (raised), "warning", "help" (of a command), or "text" (anything else).
        text: what the user sees, with expressions in braces.
    """

    file: str
    kind: Kind
    text: str

    @property
    def room(self) -> str:
        """The folder that the message belongs to: csrc/trace, kineto_spyre/cli ..."""
        parts = self.file.split("/")[:-1]
        return "/".join(parts[:3] if parts[1:2] == ["emulator"] and parts[0] == "csrc" else parts[:2])


def _is_message(text: str) -> bool:
    return bool(_WORDS.search(text)) and not _PATTERN.search(text)


def _tidy(text: str) -> str:
    return " ".join(text.split())


# --- Python -----------------------------------------------------------------------------------------------------------


class _Strings(ast.NodeVisitor):
    """The messages of one module."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Message] = []
        self._kind: Kind = "text"

    def _within(self, kind: Kind, node: ast.AST) -> None:
        before, self._kind = self._kind, kind
        self.generic_visit(node)
        self._kind = before

    def _body(self, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        self.generic_visit(node)

    visit_Module = visit_ClassDef = _body

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        node.returns = None
        self._body(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation is no message."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self._within("error", node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("warn", "warn_once"):
            self._within("warning", node)
        elif name in ("add_argument", "add_parser", "ArgumentParser"):
            self._within("help", node)
        elif name in ("compile", "cast", "findall", "search", "match", "fullmatch", "sub"):
            for argument in node.args[1:]:  # a pattern or a type goes first
                self.visit(argument)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._add(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add) and _is_text(node):
            self._add(node)
        else:
            self.generic_visit(node)

    def _add(self, node: ast.expr) -> None:
        text = _text_of(node)
        if text is not None and _is_message(text):
            self.found.append(Message(self.file, self._kind, _tidy(text)))


def _is_text(node: ast.expr) -> bool:
    """Whether this is a string by its syntax: a literal, or a sum with one in it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.FormattedValue):
        return _braced(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "" for part in node.values)
    if isinstance(node, ast.BinOp):
        return "".join((_text_of(side) if _is_text(side) else _braced(side)) or "" for side in (node.left, node.right))
    return None


def _braced(node: ast.expr) -> str:
    return "{" + ast.unparse(node) + "}"


def python_messages(source: str, file: str) -> list[Message]:
    """The messages of a Python file."""
    strings = _Strings(file)
    strings.visit(ast.parse(source))
    return strings.found


# --- C++ --------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
      | (?P<raw>R"(?P<fence>[^(\s]*)\((?P<inside>.*?)\)(?P=fence)")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<char>'(?:[^'\\\n]|\\.)+')
      | (?P<word>[A-Za-z_]\w*|\d[\w'.]*)
      | (?P<sign><<|::|->|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_THROWS = re.compile(r"\b(throw|TORCH_CHECK\w*|TORCH_INTERNAL_ASSERT)\b")
_WARNS = re.compile(r"\b(TORCH_WARN\w*|LOG|warn\w*)\b")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'", "0": "\0", "r": "\r"}


def _statements(source: str) -> Iterator[list[tuple[str, str]]]:
    """The tokens of each statement: (kind, text), where a string's text is without quotes."""
    statement: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if match["comment"] or match["directive"]:
            continue
        if match["raw"]:
            statement.append(("string", match["inside"]))
        elif match["string"]:
            inside = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match["string"][1:-1])
            statement.append(("string", inside))
        elif match[0] in ";{}":
            yield statement
            statement = []
        else:
            statement.append((kind or "", match[0]))
    yield statement


def _joined(between: list[str]) -> str | None:
    """What stands for the tokens between two literals of one text; None if they are two texts."""
    if not between:
        return ""
    depth = 0
    for token in between:
        depth += (token in "([") - (token in ")]") if len(token) == 1 else 0
        if depth < 0 or token in "?:":
            return None
    inner = between[1:-1]
    if depth or between[0] not in ("+", ",", "<<") or between[-1] not in ("+", ",", "<<"):
        return None
    if not inner:
        return "" if between[0] in ("+", "<<") else None
    return "{" + re.sub(r" ?(::|->|[.()\[\],]) ?", r"\1", " ".join(inner)) + "}"


def cpp_messages(source: str, file: str) -> list[Message]:
    """The messages of a C++ file."""
    found = []
    for statement in _statements(source):
        code = " ".join(text for kind, text in statement if kind != "string")
        if "static_assert" in code:
            continue
        kind: Kind = "error" if _THROWS.search(code) else "warning" if _WARNS.search(code) else "text"
        text: str | None = None
        between: list[str] = []
        texts = []
        for token, value in statement:
            if token != "string":
                between.append(value)
                continue
            joint = _joined(between) if text is not None else None
            if text is not None and joint is not None:
                text += joint + value
            else:
                texts.append(text)
                text = value
            between = []
        texts.append(text)
        found += [Message(file, kind, _tidy(text)) for text in texts if text is not None and _is_message(text)]
    return found


# --- all --------------------------------------------------------------------------------------------------------------


def diagnostic_messages() -> list[Message]:
    """The sentences about a session."""
    file = "kineto_spyre/diagnostics.json"
    rows = json.loads((ROOT / file).read_text(encoding="utf-8"))["diagnostics"]
    found = []
    for row in rows:
        kind: Kind = "warning" if row["severity"] != "note" else "text"
        for sentence in dict.fromkeys((row["one"], row.get("many", row["one"]))):
            found.append(Message(file, kind, f"{sentence} {row['do']}"))
    return found


def collect() -> list[Message]:
    """All messages, in the order of rooms and files; each text once a file."""
    found: list[Message] = diagnostic_messages()
    for path in [*(ROOT / "kineto_spyre").rglob("*.py"), *(ROOT / "csrc").rglob("*")]:
        file = path.relative_to(ROOT).as_posix()
        read = {".py": python_messages, ".cpp": cpp_messages, ".h": cpp_messages}.get(path.suffix)
        if read is not None and file not in NOT_FOR_USERS:
            found += read(path.read_text(encoding="utf-8"), file)
    return sorted(dict.fromkeys(found), key=lambda message: (message.room, message.file))


def page(messages: list[Message]) -> str:
    """The page, as Markdown."""
    lines = [
        "# Messages",
        "",
        "Every sentence that a user may see, by room and file. An expression in braces is filled in at run time.",
    ]
    room = file = ""
    for message in messages:
        if message.room != room:
            room = message.room
            lines += ["", f"## {room}"]
        if message.file != file:
            file = message.file
            lines += ["", f"### {file.rpartition('/')[2]}", ""]
        mark = "" if message.kind == "text" else f"{message.kind}: "
        text = message.text.replace("`", "'")
        lines.append(f"- {mark}`{text}`")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(collect()))
