"""import torch, import kineto_spyre: what they do, and above all what they don't."""

from __future__ import annotations

import pytest

MAPPED = """
def mapped():
    return [line.split()[-1] for line in open("/proc/self/maps") if "aiupti" in line]
"""


def test_the_package_imports_no_torch(run_python):
    run_python("""
        import sys
        import kineto_spyre
        assert "torch" not in sys.modules
        assert callable(kineto_spyre.enable) and callable(kineto_spyre.profile_spyre)
    """)


def test_the_command_line_imports_no_torch_for_help(run_python):
    done = run_python("""
        import sys
        from kineto_spyre.__main__ import main
        try:
            main(["--help"])
        finally:
            assert "torch" not in sys.modules
    """)
    assert "doctor" in done.stdout


def test_importing_torch_registers_the_plugin_and_says_nothing(run_python):
    done = run_python(
        """
        import torch
        from torch._C._profiler import ProfilerActivity
        import kineto_spyre
        assert kineto_spyre.status().factory == "ours"
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
    """,
        python=("-W", "error"),
    )
    assert done.stdout == ""
    assert done.stderr == ""


@pytest.mark.parametrize("value", ["0", "off"])
def test_autoload_can_be_turned_off(run_python, value):
    run_python(
        """
        import sys
        import torch
        assert "kineto_spyre._C" not in sys.modules
        import kineto_spyre
        assert kineto_spyre.status().factory == "none"
        assert not kineto_spyre.is_available()
    """,
        env={"KINETO_SPYRE_AUTOLOAD": value},
    )


def test_an_unreadable_switch_is_one_warning_and_torch_is_whole(run_python):
    done = run_python(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import torch
        assert torch.ones(2).sum() == 2
        for w in caught:
            print(w.category.__name__, w.message)
    """,
        env={"KINETO_SPYRE_AUTOLOAD": "perhaps"},
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("SpyreProfilerWarning")
    assert "'perhaps'" in line
    assert "expected 0 or 1" in line


OTHER_TORCH = """
import sys, types
info = types.ModuleType("kineto_spyre._build_info")
info.TORCH_VERSION, info.AIUPTI_HEADER = "1.99", "own"
sys.modules["kineto_spyre._build_info"] = info
"""


def test_another_torch_release_is_one_warning_before_any_cpp(run_python):
    done = run_python(
        OTHER_TORCH
        + """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
assert "kineto_spyre._C" not in sys.modules
with torch.profiler.profile() as prof:
    torch.ones(2)
assert prof.key_averages()
print(*(w.message for w in caught), sep="\\n")
"""
    )
    (line,) = done.stdout.splitlines()
    assert "built for PyTorch 1.99" in line
    assert "torch==1.99.*" in line


def test_another_torch_release_is_an_exception_from_what_the_user_calls(run_python):
    run_python(
        OTHER_TORCH
        + """
import torch
import kineto_spyre
try:
    kineto_spyre.enable()
except kineto_spyre.SpyreProfilerError as error:
    assert "built for PyTorch 1.99" in str(error)
else:
    raise AssertionError("enable() took another release")
try:
    kineto_spyre.emulator.enable()
except kineto_spyre.SpyreProfilerError as error:
    assert "built for PyTorch 1.99" in str(error)
else:
    raise AssertionError("emulator.enable() took another release")
assert "built for PyTorch 1.99" in kineto_spyre.status().problems[0]
assert not kineto_spyre.is_available()
assert not {"kineto_spyre._C", "kineto_spyre._device"} & set(sys.modules)
""",
        env={"KINETO_SPYRE_AUTOLOAD": "0"},
    )


def test_libaiupti_stays_out_until_a_session_starts(run_python):
    run_python(
        MAPPED
        + """
import torch
assert not mapped(), "import torch"
import kineto_spyre
assert not mapped(), "import kineto_spyre"
kineto_spyre.emulator.enable()
assert not mapped(), "emulator.enable()"
kineto_spyre.enable()
kineto_spyre.status()
assert not mapped(), "enable()"
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU]):
    torch.ones(2, device="spyre")
assert not mapped(), "a CPU-only profile"
prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1])
assert not mapped(), "construction of profile()"
with prof:
    torch.ones(2, device="spyre")
assert mapped(), "a session with PrivateUse1"
"""
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_worker_maps_no_libaiupti(run_python):
    run_python(
        MAPPED
        + """
import os
import torch
import kineto_spyre
kineto_spyre.emulator.enable()
pid = os.fork()
if pid == 0:
    torch.ones(2).sum()
    os._exit(7 if mapped() else 0)
assert os.waitpid(pid, 0)[1] == 0
assert not mapped()
"""
    )


def test_a_process_that_uses_no_device_opens_no_real_library(run_python, make_libaiupti, standin):
    """A real libaiupti is there and plausible; nobody profiles a Spyre, so nobody opens it."""
    run_python(
        MAPPED
        + """
import torch
from torch.profiler import ProfilerActivity, profile
import kineto_spyre
assert kineto_spyre.status().runtime == "aiupti"
kineto_spyre.enable("aiupti")
with profile(activities=[ProfilerActivity.CPU]):
    torch.ones(2)
assert not mapped()
""",
        env={"KINETO_SPYRE_LIBAIUPTI": str(make_libaiupti()), "PYTHONPATH": str(standin)},
    )
