"""Bad input gets a sentence that names it, says what was expected and what to do; torch.profiler goes on."""

from __future__ import annotations

import shutil

import numpy
import pytest

# Prints the exception's type and text of one call.
CALL = """
import sys, torch
import kineto_spyre
try:
    {call}
except Exception as error:
    print(type(error).__name__, error)
else:
    print("no exception")
with torch.profiler.profile() as prof:
    torch.ones(2)
assert any(e.key == "aten::ones" for e in prof.key_averages())
"""


def said(run_python, call, **kwargs):
    return run_python(CALL.format(call=call), **kwargs).stdout


def test_an_unknown_runtime(run_python):
    text = said(run_python, "kineto_spyre.enable('cuda')")
    assert text.startswith("ValueError The runtime is 'cuda'; expected one of 'auto', 'aiupti', 'emulated'.")


def test_a_backend_without_a_name(run_python, make_libaiupti):
    text = said(run_python, "kineto_spyre.enable('aiupti')", env={"KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti())})
    assert text.startswith("SpyreProfilerError PyTorch's PrivateUse1 backend has no name")
    assert "Import torch_spyre" in text


def test_auto_never_takes_the_emulated_one(run_python):
    text = said(run_python, "kineto_spyre.enable()", env={"FLEX_DEVICE": None})
    assert text.startswith("SpyreProfilerError No Spyre was detected")
    assert "kineto_spyre.emulator.enable()" in text


def test_no_libaiupti(run_python, standin):
    text = said(run_python, "kineto_spyre.enable('aiupti')", env={"PYTHONPATH": str(standin), "LD_LIBRARY_PATH": "/no"})
    assert text.startswith("SpyreProfilerError No libaiupti was found (tried /no/libaiupti.so, ")
    assert "KINETO_SPYRE_LIBAIUPTI" in text


def test_a_libaiupti_that_is_no_file(run_python, standin):
    text = said(
        run_python,
        "kineto_spyre.enable('aiupti')",
        env={"PYTHONPATH": str(standin), "KINETO_SPYRE_LIBAIUPTI": "/no/such/libaiupti.so"},
    )
    assert text.startswith("SpyreProfilerError KINETO_SPYRE_LIBAIUPTI is '/no/such/libaiupti.so', which is not a file.")


def test_a_libaiupti_that_lacks_a_function(run_python, standin, make_libaiupti):
    library = make_libaiupti(without="FlushAll")
    text = said(
        run_python,
        "kineto_spyre.enable('aiupti')",
        env={"PYTHONPATH": str(standin), "KINETO_SPYRE_LIBAIUPTI": str(library)},
    )
    assert text.startswith(
        f"SpyreProfilerError KINETO_SPYRE_LIBAIUPTI can't be used: {library} lacks aiuptiFlushAllActivities"
    )


@pytest.mark.parametrize("function", ["RegisterCallbacks", "Enable", "Disable", "GetNextRecord", "GetNumDropped"])
def test_each_function_is_looked_for(make_libaiupti, function):
    from kineto_spyre import _library

    assert _library.trouble(str(make_libaiupti())) is None
    sentence = _library.trouble(str(make_libaiupti(without=function)))
    assert f"aiuptiActivity{function}" in sentence.split("(looked")[0]


def test_a_library_that_only_calls_the_functions_is_none(make_libaiupti):
    """The names are in such a library's string table, too, as those of what it needs."""
    from kineto_spyre import _library

    client = make_libaiupti(only_calls=True)
    assert f"{client} lacks aiuptiActivityRegisterCallbacks, aiuptiActivityEnable" in _library.trouble(str(client))


def test_a_damaged_library_gives_a_sentence(make_libaiupti, tmp_path):
    from kineto_spyre import _library

    whole = make_libaiupti().read_bytes()
    random = numpy.random.default_rng(7)
    damaged = tmp_path / "damaged.so"
    for cut in (0, 3, 16, 40, 64, 200, len(whole) // 2):
        damaged.write_bytes(whole[:cut])
        assert _library.trouble(str(damaged)).startswith(f"{damaged} ")
    for _ in range(100):
        data = bytearray(whole)
        for at in random.integers(4, len(data), 20):
            data[at] = random.integers(256)
        damaged.write_bytes(data)
        sentence = _library.trouble(str(damaged))
        assert sentence is None or sentence.startswith(f"{damaged} ")


def test_where_a_libaiupti_is_looked_for_and_in_which_order(make_libaiupti, monkeypatch, tmp_path):
    from kineto_spyre import _library

    library = make_libaiupti()
    places = ("named", "loader", "sdk/lib", "runtime/lib")
    paths = []
    for place in places:
        (tmp_path / place).mkdir(parents=True)
        paths.append(str(shutil.copy(library, tmp_path / place / "libaiupti.so")))
    monkeypatch.setenv("KINETO_SPYRE_LIBAIUPTI", paths[0])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "loader"))
    monkeypatch.setenv("LIBAIUPTI_INSTALL_DIR", str(tmp_path / "sdk"))
    monkeypatch.setenv("RUNTIME_INSTALL_DIR", str(tmp_path / "runtime"))
    assert _library.choose() == paths[:1]  # the named one alone
    monkeypatch.delenv("KINETO_SPYRE_LIBAIUPTI")
    assert _library.choose() == paths[1:]


def test_a_libaiupti_that_lacks_a_function_is_one_warning_from_a_profile(run_python, standin, make_libaiupti):
    """The plugin that loaded by itself opens the library at the first session, and finds it wanting."""
    library = make_libaiupti(without="FlushAll")
    done = run_python(
        """
        import warnings
        import torch
        from torch.profiler import ProfilerActivity, profile
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
                torch.ones(2)
            assert any(e.key == "aten::ones" for e in prof.key_averages())
        for w in caught:
            if w.category.__name__ == "SpyreProfilerWarning":
                print(w.message)
        import kineto_spyre
        assert any("aiuptiFlushAllActivities" in p for p in kineto_spyre.status().problems)
    """,
        env={"PYTHONPATH": str(standin), "KINETO_SPYRE_LIBAIUPTI": str(library)},
    )
    assert done.stdout.count("lacks aiuptiFlushAllActivities") == 1
    assert str(library) in done.stdout


def test_no_libaiupti_beside_torch_spyre_is_one_warning_from_a_profile(run_python, standin):
    done = run_python(
        """
        import warnings
        import torch
        from torch.profiler import ProfilerActivity, profile
        import kineto_spyre
        assert not kineto_spyre.is_available()
        assert any("No libaiupti was found" in p for p in kineto_spyre.status().problems)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
                torch.ones(2)
        assert any(e.key == "aten::ones" for e in prof.key_averages())
        print(*(w.message for w in caught if issubclass(w.category, kineto_spyre.SpyreProfilerWarning)), sep="\\n")
    """,
        env={"PYTHONPATH": str(standin)},
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("No usable libaiupti was found, so device activity can't be recorded.")


def test_a_file_that_is_no_library(run_python, standin, tmp_path):
    text_file = tmp_path / "libaiupti.so"
    text_file.write_text("INPUT(libaiupti.so.1)\n")
    text = said(
        run_python,
        "kineto_spyre.enable('aiupti')",
        env={"PYTHONPATH": str(standin), "KINETO_SPYRE_LIBAIUPTI": str(text_file)},
    )
    assert f"{text_file} is not a shared library for this machine" in text


def test_a_profile_without_any_spyre(run_python):
    text = said(run_python, "kineto_spyre.profile_spyre()")
    assert text.startswith("SpyreProfilerError ")
    assert "kineto_spyre.emulator.enable()" in text


def test_a_misspelt_variable(run_python):
    text = run_python(
        """
        import kineto_spyre
        print(*kineto_spyre.status().problems, sep="\\n")
    """,
        env={"KINETO_SPYRE_BUFER_MB": "10", "KINETO_SPYRE_FLUSH_TIMEOUT_MS": "soon"},
    ).stdout
    assert "KINETO_SPYRE_BUFER_MB is not a variable of kineto_spyre. Did you mean KINETO_SPYRE_BUFFER_MB?" in text
    assert "KINETO_SPYRE_FLUSH_TIMEOUT_MS is 'soon'; expected a whole number" in text


def test_warnings_as_errors_break_nothing(run_python):
    done = run_python(
        """
        import warnings
        warnings.simplefilter("error")
        from kineto_spyre import _notices
        _notices.warn("Something was lost.")
        print("went on")
    """
    )
    assert done.stdout == "went on\n"
    assert done.stderr == "SpyreProfilerWarning: Something was lost.\n"
