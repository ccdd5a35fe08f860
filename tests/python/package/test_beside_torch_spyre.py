"""Beside torch-spyre, which may bring a profiler of its own for PyTorch's one place. A stand-in plays it."""

from __future__ import annotations

import pytest

# sys.path decides whose entry point torch calls first.
FIRST = "import sys; sys.path.insert(0, sys.argv[1])\n"
LAST = "import sys; sys.path.append(sys.argv[1])\n"


@pytest.mark.parametrize("name", ["spyre", "aiu"])
@pytest.mark.parametrize("order", [FIRST, LAST], ids=["first", "last"])
def test_without_a_profiler_of_its_own_ours_is_in_force(run_python, standin, make_libaiupti, order, name):
    run_python(
        order
        + """
import torch
import kineto_spyre
status = kineto_spyre.status()
assert (status.factory, status.backend, status.runtime) == ("ours", sys.argv[2], "aiupti"), status
assert status.available
with kineto_spyre.profile_spyre() as prof:
    torch.ones(2)
assert kineto_spyre.status().sessions == 1
assert sys.modules["torch_spyre"].synchronized >= 1
""",
        str(standin),
        name,
        env={"KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti()), "STANDIN_NAME": name},
    )


def test_its_profiler_came_first_and_stays(run_python, standin, standin_factory, make_libaiupti):
    done = run_python(
        FIRST
        + """
import torch
import kineto_spyre
status = kineto_spyre.status()
assert status.factory == "other", status
assert "KINETO_SPYRE_OVERRIDE=1" in status.problems[0]
try:
    kineto_spyre.enable("aiupti")
except kineto_spyre.SpyreProfilerError as error:
    print(error)
with kineto_spyre.profile_spyre():
    torch.ones(2)
assert kineto_spyre.status().sessions == 0
""",
        str(standin),
        env={"KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti()), "STANDIN_FACTORY": str(standin_factory)},
    )
    assert done.stdout.startswith("Another plugin is registered as PyTorch's PrivateUse1 profiler")
    assert "override=True" in done.stdout
    imported, profiled = [line for line in done.stderr.splitlines() if "SpyreProfilerWarning" in line]
    assert "so traces hold what it records. Set KINETO_SPYRE_OVERRIDE=1" in imported
    assert imported.startswith("<string>:3: "), "the line that imports torch"
    assert "so traces hold what it records. Call kineto_spyre.enable(override=True)" in profiled


@pytest.mark.parametrize("how", ["variable", "argument"])
def test_ours_takes_the_place_when_told_to(run_python, standin, standin_factory, make_libaiupti, how):
    run_python(
        FIRST
        + """
import torch
import kineto_spyre
if sys.argv[2] == "argument":
    kineto_spyre.enable("aiupti", override=True)
assert kineto_spyre.status().factory == "ours"
with kineto_spyre.profile_spyre():
    torch.ones(2)
assert kineto_spyre.status().sessions == 1
""",
        str(standin),
        how,
        env={
            "KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti()),
            "STANDIN_FACTORY": str(standin_factory),
            "KINETO_SPYRE_OVERRIDE": "1" if how == "variable" else None,
        },
    )


@pytest.mark.parametrize("when", ["before the first profile", "after it"])
def test_its_profiler_came_after_ours_and_that_is_said_once(run_python, standin, standin_factory, make_libaiupti, when):
    done = run_python(
        LAST
        + """
import torch
import kineto_spyre
import torch_spyre
assert kineto_spyre.status().factory == "ours"
if sys.argv[2] == "after it":
    with kineto_spyre.profile_spyre():
        torch.ones(2)
torch_spyre.register_factory()
for _ in range(2):
    with kineto_spyre.profile_spyre():
        torch.ones(2)
print(kineto_spyre.status().factory, *kineto_spyre.status().problems, sep="\\n")
""",
        str(standin),
        when,
        python=("-W", "always"),  # else Python itself would keep the second one back
        env={
            "KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti()),
            "STANDIN_FACTORY": str(standin_factory),
            "STANDIN_LATE": "1",
        },
    )
    notices = [line for line in done.stderr.splitlines() if "SpyreProfilerWarning" in line and "nother plugin" in line]
    assert len(notices) == 1, done.stderr
    factory = done.stdout.splitlines()[0]
    # Kineto keeps the plugin that it was handed at its first profile.
    assert factory == ("other" if when == "before the first profile" else "ours")
