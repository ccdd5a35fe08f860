"""tools/check_words.py: each word that was left is found where it would come back, and nowhere else."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_words  # noqa: E402


@pytest.mark.parametrize(
    ("file", "line", "word"),
    [
        ("docs/a.md", "Copies are placed on lanes.", "lane"),
        ("csrc/trace/a.cpp", "int lanes = 0;", "lane"),
        ("csrc/trace/lane.h", "", "lane"),
        ("csrc/capture/a.h", "void note_op_begin();", "note of an op"),
        ("csrc/trace/a.h", "class TraceMaker {", "Maker"),
        ("docs/a.md", "It walks over the records.", "walk"),
        ("csrc/trace/a.h", "bool straight_way = true;", "straight, long or short way"),
        ("README.md", "3 records were lost.", "lost, refused records"),
        ("csrc/trace/a.cpp", "++drops.refused;", "refused, lost, outside"),
        ("csrc/trace/a.h", "class Pages {", "Reserve, Pages"),
        ("csrc/trace/a.h", "class Launches {", "Launches"),
        ("csrc/capture/a.h", "template <class Visitor>", "visitor"),
        ("csrc/capture/a.h", "struct Harvest {", "harvest"),
        ("csrc/device/a.h", "class Boxed {", "boxed"),
        ("kineto_spyre/a.py", "import kineto_spyre.emulator.torch_spyre", "emulator.torch_spyre"),
        ("csrc/trace/a.h", "  struct Device {", "Device (of a pass)"),
        ("csrc/capture/a.cpp", "// The thread's notes.", "notes"),
    ],
)
def test_an_old_word_is_found(file, line, word):
    told = list(check_words.found(file, line))
    assert told and all(f"old word {word!r}" in sentence for sentence in told), told


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("kineto_spyre/a.py", "for folder, _, names in os.walk(top):"),
        ("tools/a.py", "ast.walk(tree)"),
        ("docs/a.md", "The walk-through follows these rules."),
        ("csrc/emulator/runtime/machine.h", "class Device {"),
        ("csrc/emulator/runtime/a.h", "bool lost() const;"),
        ("docs/a.md", "Pages of the site, rows of a table."),
        ("CHANGELOG.md", "(before, `emulator.torch_spyre`)"),
    ],
)
def test_the_same_word_elsewhere_is_not(file, line):
    assert list(check_words.found(file, line)) == []


def test_the_tree_has_none():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run([sys.executable, ROOT / "tools" / "check_words.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
