"""Files that kineto_spyre writes: complete or not there, and with the mode that the user's umask asks for."""

import os
import pathlib
import re
import stat

import pytest

import kineto_spyre
from kineto_spyre._files import new_file
from kineto_spyre.bundle import Bundle, write


@pytest.fixture
def umask_027():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_of_the_umask(tmp_path, umask_027):
    with new_file(tmp_path / "a", force=False) as file:
        file.write(b"1")
    assert mode(tmp_path / "a") == 0o640
    write(Bundle({"note.txt": "1"}), str(tmp_path / "b.zip"))
    assert mode(tmp_path / "b.zip") == 0o640


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o600)
    with pytest.raises(FileExistsError), new_file(path, force=False) as file:
        file.write(b"new")
    assert path.read_text() == "old"
    with new_file(path, force=True) as file:
        file.write(b"new")
    assert path.read_text() == "new" and mode(path) == 0o600


def test_nothing_is_left_of_a_file_that_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a", force=False) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_written_in_another_way():
    """tempfile's files have mode 0600, and keep it when they are renamed."""
    folder = pathlib.Path(kineto_spyre.__file__).parent
    found = [
        path.name for path in folder.rglob("*.py") if re.search(r"\b(mkstemp|NamedTemporaryFile)\b", path.read_text())
    ]
    assert found == []
