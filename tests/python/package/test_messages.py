"""The page of all messages: the collector finds them, and each keeps the rules of the house."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys

import pytest

CHECKOUT = pathlib.Path(__file__).parents[3]


def load(path):
    """A tool of the checkout as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


messages = load(CHECKOUT / "tools" / "messages.py")
ALL = messages.collect()
PAGE = messages.page(ALL)


def texts(found):
    return [(message.kind, message.text) for message in found]


def test_strings_of_python():
    source = '''
"""A docstring is no message."""
from typing import Literal
KIND: "Literal['not this one']" = "a text that is shown"
PATTERN = re.compile(r"not \\s this")
def f(x: "nor this one") -> "or this one":
    """Nor this docstring."""
    warn(f"The file {x!r} is"
         " missing. " + ADVICE)
    parser.add_argument("--x", help="what x is")
    raise ValueError(f"There is no {x}. " "Name another one.")
'''
    assert texts(messages.python_messages(source, "a.py")) == [
        ("text", "a text that is shown"),
        ("warning", "The file {x} is missing. {ADVICE}"),
        ("help", "what x is"),
        ("error", "There is no {x}. Name another one."),
    ]


def test_strings_of_cpp():
    source = r"""
#include "not this one.h"
// "nor a comment"
static_assert(sizeof(X) == 8, "nor this one");
void f() {
  TORCH_CHECK(ok, "Device ", index, " has no \"stream\" ", stream.id(), ". Make one.");
  throw std::runtime_error("no memory for " + std::to_string(bytes) +
                           " bytes");
  const char quote = '"'; say(R"(a raw text)");
  return x ? "one way" : "or another";
}
"""
    assert texts(messages.cpp_messages(source, "a.cpp")) == [
        ("error", 'Device {index} has no "stream" {stream.id()}. Make one.'),
        ("error", "no memory for {std::to_string(bytes)} bytes"),
        ("text", "a raw text"),
        ("text", "one way"),
        ("text", "or another"),
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("kineto_spyre/diagnostics.json", "{count} records were dropped because the buffers were full. Raise KINETO_"),
        ("kineto_spyre/profiler/_enable.py", "No Spyre was detected: no card on the PCI bus, torch-spyre is not inst"),
        ("kineto_spyre/profiler/_profile.py", "Another profile runs in this process, and PyTorch can run one at a ti"),
        ("kineto_spyre/cli/doctor.py", "start an emulated Spyre first, and profile one kernel on it"),
        ("csrc/device/hooks.cpp", "The address {pointer} does not belong to a spyre device."),
        ("csrc/trace/clock_alignment.cpp", "Clock alignment is off (KINETO_SPYRE_CLOCK_ALIGN)."),
    ],
)
def test_known_sentences_are_on_the_page(file, text):
    assert any(message.file == file and message.text.startswith(text) for message in ALL)
    assert text in PAGE


def test_the_page_is_the_same_each_time():
    assert messages.page(messages.collect()) == PAGE


AMERICAN = r"(?i)\b\w*(ynchronis|erialis|ecognis|rganis|nitialis|ptimis|isualis|olour|ehaviour|eighbour|icence)"
RULES = {
    "a count has a sentence for one and a sentence for many": r"\w\((s|es)\)",
    "no ellipsis, but for arguments that are left out": r"(?<![=(,] )(?<![=(])\.\.\.|…",
    "dropped, invalid, out of window": r"\b(lost|refuse[sd]?|crowded)\b(?! \(a fault)",
    "the words of the glossary": r"\b(lanes?|walk(er|ed|s)?|harvest|attic|visitors?|homeless|straight way|long way)\b",
    "because, not for": r", for (it|they|there|this|that|these|those|its|no)\b",
    "detected, not speaks for": r"\bspeaks? for\b",
    "not set, rather than not yet": r"\byet\b",
    "can't, can't be": r"\b(can not|cannot)\b",
    "American spelling": AMERICAN,
    "no sentence with a 0 where nothing happened": r"\b0 (records?|kernels?|faults?|errors?|warnings?)\b",
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_the_house(rule):
    broken = [f"{m.file}: {m.text}" for m in ALL if re.search(RULES[rule], m.text)]
    assert not broken, rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("a count has a sentence for one and a sentence for many", "2 record(s) were dropped."),
        ("no ellipsis, but for arguments that are left out", "Reading ..."),
        ("dropped, invalid, out of window", "3 records were lost."),
        ("because, not for", "Nothing was recorded, for there is no device."),
        ("American spelling", "Synchronise the device."),
    ],
)
def test_a_rule_finds_what_it_forbids(rule, text):
    assert re.search(RULES[rule], text)


# Texts of PyTorch's own, which its tests look for.
OF_PYTORCH = ("Only dense CPU tensors can be pinned", "Trying to resize storage that is not resizable")


def test_what_is_raised_or_warned_of_ends_as_a_sentence():
    broken = [
        f"{m.file}: {m.text}"
        for m in ALL
        if m.kind in ("error", "warning")
        and re.match(r"[A-Z]\w* \w+ \w+ \w+", m.text)
        and m.text[-1] not in ".?!}:"
        and m.text not in OF_PYTORCH
    ]
    assert not broken
