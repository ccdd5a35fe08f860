"""kineto-spyre's part in TensorBoard never stands in TensorBoard's way."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import subprocess
import sys

import pytest

pytest.importorskip("tensorboard")


def imported(before, after=""):
    """Imports the entry point in a process of its own, after `before`."""
    code = "\n".join(
        [
            "import sys, types",
            before,
            "import kineto_spyre.viewers.tensorboard as ours",
            "class Context: logdir = '.'",
            "plugin = ours.Loader().load(Context)",
            after or "assert plugin.plugin_name == 'spyre_report'",
        ]
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_entry_point_is_installed_and_adds_one_plugin():
    from tensorboard.plugins import base_plugin

    (found,) = importlib.metadata.entry_points(group="tensorboard_plugins", name="kineto_spyre")
    assert issubclass(found.load(), base_plugin.TBLoader)


@pytest.mark.parametrize(
    "before",
    [
        "import tensorboard.plugins.base_plugin as b; b.FrontendMetadata = lambda: None",
        "import tensorboard.backend as b; sys.modules['tensorboard.backend.http_util'] = None",
        "sys.modules['torch_tb_profiler'] = None; import tensorboard.plugins.base_plugin as b; del b.TBPlugin",
    ],
)
def test_a_tensorboard_that_looks_different_goes_on_without_the_page(before):
    said = imported(before, "assert plugin is None")
    assert "could not add its page" in said


def test_a_context_without_a_log_directory_costs_the_page_alone():
    said = imported("", "del Context.logdir; assert ours.Loader().load(Context) is None")
    assert "could not add its page" in said


def test_without_torch_tb_profiler_nothing_happens():
    assert imported("sys.modules['torch_tb_profiler'] = None") == ""


def test_a_torch_tb_profiler_that_looks_different_is_left_alone_with_a_warning():
    said = imported(
        "parts = ['.plugin', '.run', '.consts', '.profiler', '.profiler.data', '.profiler.loader', '.profiler.trace']\n"
        "for name in ['', *parts]:\n"
        "    module = types.ModuleType('torch_tb_profiler' + name)\n"
        "    module.__path__ = []\n"
        "    sys.modules[module.__name__] = module\n"
        "    parent, _, child = module.__name__.rpartition('.')\n"
        "    if parent: setattr(sys.modules[parent], child, module)"
    )
    assert "could not adapt torch-tb-profiler" in said


def test_it_loads_no_torch():
    pytest.importorskip("torch_tb_profiler")
    imported("", "assert 'torch' not in sys.modules")


@pytest.mark.parametrize(
    "document",
    [
        '{"a": "]", "traceEvents": [{"ph": "M"}], "devices": [1, 2], "b": "]"}',
        '{"traceEvents" : [ ], "b": []}',
        '{\n"traceEvents": [\n{"ph": "M", "name": "\\"traceEvents\\": ["}]}',
    ],
)
def test_counters_are_added_to_any_trace_and_nothing_is_lost(document):
    pytest.importorskip("torch_tb_profiler")
    from kineto_spyre.viewers.tensorboard import stock

    class Profile:
        gpu_metrics = ('{"ph": "C", "name": "GPU 0 Utilization"}', '{"ph": "C", "name": "other"}')

    before = json.loads(document)
    after = json.loads(gzip.decompress(stock.append_gpu_metrics(Profile(), document.encode())))
    assert after.pop("traceEvents") == [*map(json.loads, Profile.gpu_metrics), *before.pop("traceEvents")]
    assert after == before
    Profile.gpu_metrics = ()
    assert gzip.decompress(stock.append_gpu_metrics(Profile(), document.encode())) == document.encode()


def test_its_run_loader_is_found_by_the_processes_that_parse():
    pytest.importorskip("torch_tb_profiler")
    from torch_tb_profiler import plugin

    from kineto_spyre.viewers.tensorboard import stock

    assert plugin.RunLoader is stock.RunLoader
    assert stock.RunLoader.__module__ == "kineto_spyre.viewers.tensorboard.stock"
