"""The reference pages are made of what they describe, and what they describe is what a session and the code have."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import pathlib
import re
import typing

import pytest

CHECKOUT = pathlib.Path(__file__).parents[3]
PAGES = {page.name: page.read_text() for page in (CHECKOUT / "docs" / "reference").glob("*.md")}
_spec = importlib.util.spec_from_file_location("reference", CHECKOUT / "tools" / "reference.py")
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


@pytest.mark.parametrize("name", reference.GENERATED)
def test_each_table_is_on_one_page(name):
    assert sum(page.count(f"<!-- generated: {name} -->") for page in PAGES.values()) == 1
    assert len(reference.GENERATED[name]()) > 500


def test_pages_are_filled():
    page = reference.fill("before\n\n<!-- generated: environment -->\n\nafter")
    assert page.startswith("before\n\n| variable |") and page.endswith("|\n\nafter")
    assert "| `KINETO_SPYRE_BUFFER_MB` | a number from 0.03125 to this machine's memory | 1024 |" in page
    with pytest.raises(KeyError):
        reference.fill("<!-- generated: weather -->")


def test_each_diagnostic_has_its_sentences():
    page = reference.fill("<!-- generated: diagnostics -->")
    assert "## records_dropped\n\nWarning; data is missing.\n\n- 1 record was dropped because" in page
    assert "## flush_after_disable_failed\n\nNote; no data is missing." in page


def test_each_command_has_its_options_and_exit_codes():
    page = reference.fill("<!-- generated: command-line -->")
    from kineto_spyre import cli

    sections = dict(section.split("\n", 1) for section in page.removeprefix("## ").split("\n\n## "))
    assert sorted(sections) == cli.names()
    for name, text in sections.items():
        assert f"usage: kineto-spyre {name}" in text and re.search(r"\nExit code: 0", text), name


def test_variables_are_read_in_one_place():
    readers = set()
    for path in (CHECKOUT / "kineto_spyre").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.unparse(node) if isinstance(node, (ast.Call, ast.Subscript, ast.Compare)) else ""
            if re.search(r"os\.(environ|getenv).*KINETO_SPYRE_", text):
                readers.add(path.name)
    assert not readers  # _environment.py reads them by the names of its table
    in_cpp = {
        (path.parent.name, path.name)
        for path in (CHECKOUT / "csrc").rglob("*.[ch]*")
        if re.search(r"getenv\(\"KINETO_SPYRE_", path.read_text())
    }
    assert in_cpp == {("runtime", "runtime.cpp")}  # KINETO_SPYRE_FAULTS, for programs without Python


def test_what_an_event_holds_is_on_the_page():
    files = ("kineto/activity.cpp", "trace/event_text.cpp")
    sources = "".join((CHECKOUT / "csrc" / name).read_text() for name in files)
    keys = set(re.findall(r"json\.(?:number|numbers|text)\(\"([^\"]+)\"", sources))
    assert {"correlation", "memory bandwidth (GB/s)", "cycles_ts"} <= keys
    assert not [key for key in keys if f"`{key}`" not in PAGES["metadata.md"]]


def misfits(value, hint, where="details"):
    """Where a value is not of its type, in words."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    found = []
    if typing.is_typeddict(hint):
        if not isinstance(value, dict) or not hint.__required_keys__ <= set(value) <= set(hint.__annotations__):
            return [f"{where}: {value!r}"]
        for key, kind in typing.get_type_hints(hint).items():
            found += misfits(value[key], kind, f"{where}.{key}") if key in value else []
    elif origin is list:
        for one in value:
            found += misfits(one, of[0], f"{where}[]")
    elif origin is dict:
        for key, one in value.items():
            found += misfits(key, of[0], f"a key of {where}") + misfits(one, of[1], f"{where}.{key}")
    elif origin is typing.Literal:
        found = [] if value in of else [f"{where}: {value!r}"]
    elif not any(type(value) is kind or (kind is float and type(value) is int) for kind in of or (hint,)):
        found = [f"{where}: {value!r}"]
    return found


def test_details_are_of_their_types_to_the_last_field(run_python):
    done = run_python(
        """
        import json, warnings, torch, kineto_spyre
        from kineto_spyre import emulator
        warnings.simplefilter("ignore")
        emulator.enable(devices=2)
        x = torch.ones(8, 8).to("spyre")
        with emulator.faults("clock_offset=-5ms", drop=5, backwards=7):
            with kineto_spyre.profile_spyre():
                for _ in range(40):
                    y = (x + x).cpu()
        session = kineto_spyre.last_session()
        assert session.details["clock"]["0"]["offset_ns"] == session.clock[0].offset_ns
        print(json.dumps(session.details))
        """
    )
    from kineto_spyre.profiler._details import Details

    details = json.loads(done.stdout.splitlines()[-1])
    assert details["diagnostics"] and details["clock"] and details["invalid"] and details["records"]
    assert misfits(details, Details) == []
    del details["versions"]["built_for_torch"]
    details["dropped"] = "3"
    assert len(misfits(details, Details)) == 2


def test_the_profiler_mirrors_torch_profiler():
    import torch.profiler

    from kineto_spyre import profiler

    assert set(torch.profiler.__all__) <= set(profiler.__all__)
    for name in profiler.__all__:
        assert getattr(profiler, name) is not None
    stock = inspect.signature(torch.profiler.profile).parameters
    for ours in (profiler.profile, profiler.profile_spyre):
        parameters = inspect.signature(ours).parameters
        assert set(stock) - {"use_cuda"} <= set(parameters)  # which is deprecated
        kept = {name for name in stock if name in parameters and parameters[name].default == stock[name].default}
        changed = {"use_cuda"} if ours is profiler.profile else {"use_cuda", "record_shapes"}
        assert set(stock) - kept == changed
