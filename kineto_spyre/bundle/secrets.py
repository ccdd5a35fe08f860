"""What a bundle must not hold, as a list that people can read: each rule finds something, and says what stands there
instead. `kineto-spyre bundle --secrets` prints it.

In: text of any kind, JSON among it: what is put in place of a secret holds no quote and no backslash, and no rule
reaches over one. Out: the text without secrets, and how often each rule applied. Errors: none.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections import Counter
from typing import NamedTuple


class Rule(NamedTuple):
    """Where `pattern` matches, `instead` is written; its group "keep", if it has one, stays before that."""

    name: str
    pattern: str
    instead: str


_SECRET = r"(?:token|secret|password|passwd|api_?key|access_?key|private_?key|credentials?)"

RULES = (
    Rule("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"']*?-----END [A-Z ]*PRIVATE KEY-----", "[key]"),
    Rule("a user and a password in an address", r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/@\"'\\:]+:[^\s/@\"'\\]+@",
         "[login]@"),
    Rule("a token of Hugging Face", r"\bhf_[A-Za-z0-9]{20,}", "[token]"),
    Rule("a token of GitHub", r"\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})", "[token]"),
    Rule("a key of a model's provider", r"\bsk-[A-Za-z0-9_-]{20,}", "[key]"),
    Rule("a key of AWS", r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", "[key]"),
    Rule("a JSON web token", r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}", "[token]"),
    Rule("what follows Bearer", r"(?P<keep>\b[Bb]earer )[^\s\"'\\,;&]{8,}", "[token]"),
    Rule("a text after a name that suggests a secret",  # "api_key": "...", password = '...'
         r"(?i)(?P<keep>\b\w*" + _SECRET + r"\\?[\"']?\s*[=:]\s*\\?[\"'])(?!\[)[^\s\"'\\]{4,}", "[secret]"),
    Rule("the value of a variable whose name suggests a secret",  # HF_TOKEN=...
         r"(?P<keep>\b[A-Z0-9_]*" + _SECRET.upper() + r"=)(?!\[)[^\s\"'\\,;&]{4,}", "[secret]"),
)  # fmt: skip


def rules() -> list[Rule]:
    """The list, and the names of this machine and of its user."""
    own = []
    home = os.path.expanduser("~")
    if len(home) > 1 and home != "/root":
        own.append(Rule("the home folder", re.escape(home) + r"(?![\w.-])", "~"))
    if len(host := socket.gethostname()) > 2 and host != "localhost":
        own.append(Rule("the name of this machine", _word(host), "[host]"))
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        user = ""
    if len(user) > 2 and user != "root":
        own.append(Rule("the name of the user", _word(user), "[user]"))
    return [*RULES, *own]


def _word(name: str) -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"


def without_secrets(text: str, chosen: list[Rule] | None = None) -> tuple[str, Counter[str]]:
    """The text with each secret replaced, and how often each rule applied."""
    counts: Counter[str] = Counter()
    for rule in rules() if chosen is None else chosen:

        def put(found: re.Match[str], rule: Rule = rule) -> str:
            counts[rule.name] += 1
            return (found.groupdict().get("keep") or "") + rule.instead

        text = re.sub(rule.pattern, put, text)
    return text, counts
