"""kineto_spyre.profile_spyre, where torch.profiler.profile is rough; and what the plugin adds to a trace."""

from __future__ import annotations

import gzip
import json
import subprocess
import threading

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import kineto_spyre
from kineto_spyre import emulator, profiler

from .conftest import ACTIVITIES, Trace, session


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(8, 8).to("spyre")


@pytest.fixture
def trace_of(export):
    """Profiles a program with profile_spyre, and exports."""

    def run(program, **options) -> Trace:
        with kineto_spyre.profile_spyre(**options) as prof:
            program()
        return export(prof)

    return run


# --- events and tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exposed", [False, True])
def test_a_range_does_not_break_exposed_metadata(x, exposed):
    options = {"experimental_config": _ExperimentalConfig(expose_kineto_event_metadata=True)} if exposed else {}
    with profile(activities=ACTIVITIES, **options) as prof:
        with record_function("R"):
            x @ x
    rows = {row.key for row in prof.key_averages()}
    assert {"R", "aten::mm"} <= rows
    assert len([e for e in prof.events() if e.name == "R"]) == 2  # on the host, and on the device
    assert len(rows) == len(prof.key_averages()) - 1  # "R" is a row of the host and one of the device


def test_a_range_on_the_device_tells_its_track_and_a_stream_that_is_none(x, export):
    with profile(activities=ACTIVITIES) as prof:
        with record_function("outer"), record_function("inner"):
            x @ x
    args = {span["name"]: span["args"] for span in export(prof).of("gpu_user_annotation")}
    assert {one["track"] for one in args.values()} == {f"stream 1 ranges, level {level}" for level in (1, 2)}
    assert [int(one["stream"]) for one in args.values()] == [-1, -1]
    assert args["outer"]["stream"] != args["inner"]["stream"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("PRIVATEUSE1_RUNTIME", {"aiuLaunchControlBlocks", "aiuDataTransferDtoH", "aiuScheduleWait"}),
        ("CONCURRENT_KERNEL", {"spyre_kernel_v1_add_fbkkuo6tzixij3n5#0"}),
        ("GPU_MEMCPY", {"Memcpy (DtoH)"}),
    ],
)
def test_each_kind_alone(x, kind, names):
    with profile(activities=[{ProfilerActivity.PrivateUse1: [kind]}]) as prof:
        (x + x).cpu()
    assert {e.name for e in prof.events()} == names
    assert session().complete


def test_calls_beside_the_ops_of_the_cpu(x, export):
    """To Kineto this asks for what a profile of the CPU alone asks for."""
    with profile(activities=[ProfilerActivity.CPU, {ProfilerActivity.PrivateUse1: ["PRIVATEUSE1_RUNTIME"]}]) as prof:
        (x + x).cpu()
    trace = export(prof)
    assert {"aten::add", "aten::copy_"} <= {op["name"] for op in trace.of("cpu_op")}
    calls = {call["name"] for call in trace.of("privateuse1_runtime")}
    assert calls == {"aiuLaunchControlBlocks", "aiuDataTransferDtoH", "aiuScheduleWait"}
    assert not trace.of("kernel", "gpu_memcpy") and session().complete


def test_a_profile_of_the_cpu_alone_opens_no_session(x):
    before = kineto_spyre.status().sessions
    with profile(activities=[ProfilerActivity.CPU]):
        x + x
    assert kineto_spyre.status().sessions == before


def test_nothing_of_ours_ends_after_the_window(x, trace_of):
    for _ in range(5):
        trace = trace_of(lambda: x + x)
        [window_end] = [e["ts"] for e in trace.events if e["name"] == "Record Window End"]
        [span] = [e for e in trace.events if e["name"] == "AIU (-1)"]
        assert span["ts"] + span["dur"] <= window_end
        for event in trace.of("kernel", "privateuse1_runtime"):
            assert sum(trace.ns(event)) <= trace.json["baseTimeNanoseconds"] + round(window_end * 1000)


def test_copies_tell_their_kind_as_torch_spyres_plugin_does_and_waits_have_no_correlation(x, trace_of):
    trace = trace_of(lambda: [torch.ones(4).to("spyre"), x.cpu(), torch.spyre.synchronize()])
    kinds = {e["name"]: e["args"]["memory operation id"] for e in trace.of("gpu_memcpy")}
    assert kinds == {"Memcpy (HtoD)": 1, "Memcpy (DtoH)": 2}
    calls = trace.of("privateuse1_runtime")
    waits = [e for e in calls if e["name"] == "aiuScheduleWait"]
    # acelyzer takes a call with a correlation for one whose device work is missing.
    assert waits and not any("correlation" in e["args"] for e in waits)
    assert all("correlation" in e["args"] for e in calls if e["name"].startswith("aiuDataTransfer"))


# --- what is missing is said -----------------------------------------------------------------------------------------


def test_no_buffers_is_no_sentence_with_a_zero(x, trace_of, recwarn):
    with emulator.faults(no_buffers=0):
        trace = trace_of(lambda: [x + x for _ in range(4)])
    assert not any(" 0 " in sentence or sentence.startswith("0 ") for sentence in session().warnings)
    assert session().complete == trace.metadata["complete"] is False
    assert {found["code"] for found in trace.metadata["diagnostics"]} & {"records_dropped", "buffer_requests_refused"}


SILENT = """
int aiuptiActivityRegisterCallbacks(void* requested, void* completed) { return 0; }
int aiuptiActivityEnable(int kind) { return 0; }
int aiuptiActivityDisable(int kind) { return 0; }
int aiuptiActivityGetNextRecord(void* buffer, unsigned long size, void** record) { return 3; }
int aiuptiActivityGetNumDroppedRecords(unsigned long* count) { *count = 0; return 0; }
int aiuptiFlushAllActivities(void) { return 0; }
"""


def test_a_library_that_delivers_nothing_is_named(run_python, tmp_path):
    library = tmp_path / "libaiupti.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=SILENT, text=True, check=True, timeout=60
    )
    done = run_python(
        """
        import json, torch, kineto_spyre
        from kineto_spyre import emulator
        emulator.enable()
        x = torch.ones(4).to("spyre")
        kineto_spyre.enable("aiupti")
        with torch.profiler.profile() as prof:
            x + x
        session = kineto_spyre.last_session()
        [found] = session.diagnostics
        print(json.dumps([found.code, found.sentence, session.complete, session.details["records_read"]]))
        """,
        env={"KINETO_SPYRE_LIBAIUPTI": str(library)},
    )
    code, sentence, complete, records = json.loads(done.stdout)
    assert code == "no_records_at_all" and str(library) in sentence
    assert not complete and records == 0


@pytest.mark.parametrize(
    ("kept", "tried"), [({}, True), ({"final_flush": False}, False), ({"final_flush": True}, True)]
)
def test_a_flush_that_a_selftest_found_to_fail_is_left_out(run_python, tmp_path, kept, tried):
    """A library that fails to flush once nothing is enabled; its file is as large as the one that was tested."""
    library = tmp_path / "libaiupti.so"
    source = SILENT.replace("int kind) { return 0; }", "int kind) { return enabled = ENABLE, 0; }")
    source = "static int enabled;" + source.replace("ENABLE", "1", 1).replace("ENABLE", "0", 1)
    source = source.replace("Activities(void) { return 0; }", "Activities(void) { return enabled ? 0 : 5; }")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=source, text=True, check=True, timeout=60
    )
    done = run_python(
        """
        import json, os, sys, torch, kineto_spyre
        from kineto_spyre import emulator
        from kineto_spyre.selftest import cache
        library, kept = os.environ["KINETO_SPYRE_LIBAIUPTI"], json.loads(sys.argv[1])
        if kept:
            cache.file_of(library).parent.mkdir()
            cache.file_of(library).write_text(json.dumps(
                {
                    "format": cache.FORMAT,
                    "library": library,
                    "bytes": os.stat(library).st_size,
                    "variations": [],
                    **kept,
                }
            ))
        emulator.enable()
        x = torch.ones(4).to("spyre")
        kineto_spyre.enable("aiupti")
        with torch.profiler.profile():
            x + x
        print(json.dumps([found.code for found in kineto_spyre.last_session().diagnostics]))
        """,
        json.dumps(kept),
        env={"KINETO_SPYRE_LIBAIUPTI": str(library.resolve()), "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert ("flush_after_disable_failed" in json.loads(done.stdout)) == tried


def test_old_names_of_a_session_still_work(x, trace_of):
    trace_of(lambda: x + x)
    for old, new in {"lost": "dropped", "refused": "invalid", "outside": "out_of_window"}.items():
        with pytest.warns(DeprecationWarning, match=f"Session.{old} is now Session.{new}"):
            assert getattr(session(), old) == getattr(session(), new)


def test_a_session_is_typed_to_its_last_field(x, trace_of):
    trace_of(lambda: x + x)
    clock = session().clock[0]
    assert isinstance(clock, profiler.DeviceClock) and clock.pairs == 1 and not clock.applied
    assert session().diagnostics == [] and session().warnings == [] and session().complete


# --- switched off and on ---------------------------------------------------------------------------------------------


def test_toggling_the_device(x, export):
    device = [ProfilerActivity.PrivateUse1]
    with kineto_spyre.profile_spyre() as prof:
        prof.toggle_collection_dynamic(False, device)
        for _ in range(4):
            x * 2
    assert export(prof).kernels == []
    with kineto_spyre.profile_spyre() as prof:
        x + x
        prof.toggle_collection_dynamic(False, device)
        for _ in range(4):
            x * 2
        prof.toggle_collection_dynamic(True, device)
        x - x
    assert [name.split("_")[3] for name in (k["name"] for k in export(prof).kernels)] == ["add", "sub"]


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_export_that_fails_takes_nothing_away(x, tmp_path):
    with kineto_spyre.profile_spyre() as prof:
        x + x
    with pytest.raises(FileNotFoundError, match="missing_folder is not a folder"):
        prof.export_chrome_trace(str(tmp_path / "missing_folder" / "x.json"))
    with pytest.raises(IsADirectoryError):
        prof.export_chrome_trace(str(tmp_path))
    prof.export_chrome_trace(str(tmp_path / "x.json"))
    prof.export_chrome_trace(str(tmp_path / "y.json.gz"))
    prof.export_chrome_trace(str(tmp_path / "x.json"))
    first = json.loads((tmp_path / "x.json").read_text())
    assert len([e for e in first["traceEvents"] if e.get("cat") == "kernel"]) == 1
    assert json.loads(gzip.open(tmp_path / "y.json.gz").read()) == first
    (tmp_path / "x.json").unlink()
    with pytest.raises(kineto_spyre.SpyreProfilerError, match="which is gone"):
        prof.export_chrome_trace(str(tmp_path / "z.json"))


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
@pytest.mark.parametrize(
    "value", ['say "hi"', "C:\\temp\\new", "two\nlines\tand \x01", "a list: [1, 2]", "Grüße, 世界", ""], ids=repr
)
def test_metadata_is_what_was_added(x, tmp_path, value, suffix):
    with kineto_spyre.profile_spyre() as prof:
        x + x
        prof.add_metadata("q", "an earlier value")
        prof.add_metadata("q", value)
        prof.add_metadata('key "with" quotes', value)
        prof.add_metadata_json("j", json.dumps({"of": [value]}))
    path = tmp_path / f"x.{suffix}"
    prof.export_chrome_trace(str(path))
    trace = Trace(path)
    assert trace.json["q"] == trace.json['key "with" quotes'] == value
    assert trace.json["j"] == {"of": [value]}
    assert trace.json["record_shapes"] == 1 and trace.metadata["complete"]


def test_metadata_that_is_no_json_or_would_hide_the_trace(x):
    with kineto_spyre.profile_spyre() as prof:
        x + x
        for key in ("kineto_spyre", "traceEvents", "distributedInfo"):
            with pytest.raises(ValueError, match=f"uses the metadata key '{key}'"):
                prof.add_metadata(key, "mine")
        for text in ("{", "NaN", "'a'"):
            with pytest.raises(ValueError, match="'k' is not JSON"):
                prof.add_metadata_json("k", text)


def test_the_python_exporter_says_what_it_leaves_out(x, tmp_path):
    with kineto_spyre.profile_spyre() as prof:
        x + x
    with pytest.warns(kineto_spyre.SpyreProfilerWarning, match="Leave use_python_export out"):
        prof.export_chrome_trace(str(tmp_path / "x.json"), use_python_export=True)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_memory_timeline_of_the_device_without_an_index(x, tmp_path):
    with kineto_spyre.profile_spyre(profile_memory=True, with_stack=True) as prof:
        for _ in range(3):
            y = x + x
        del y
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for path, device in zip(files, ("spyre", "spyre:0")):
        prof.export_memory_timeline(str(path), device=device)
    assert files[0].read_text() == files[1].read_text()
    times, sizes = json.loads(files[0].read_text())
    assert len(times) > 1 and any(any(row) for row in sizes)


def test_stacks_with_the_device_metric(x, tmp_path):
    with kineto_spyre.profile_spyre(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)) as prof:
        for _ in range(20):
            x @ x
    for metric in ("self_spyre_time_total", "self_device_time_total"):
        prof.export_stacks(str(tmp_path / metric), metric)
    text = (tmp_path / "self_spyre_time_total").read_text()
    assert text == (tmp_path / "self_device_time_total").read_text()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()) > 0


# --- one at a time ---------------------------------------------------------------------------------------------------


def test_a_second_profile_on_another_thread_is_an_exception(x, export):
    raised = []

    def second() -> None:
        try:
            with kineto_spyre.profile_spyre():
                x + x
        except kineto_spyre.SpyreProfilerError as error:
            raised.append(str(error))

    with kineto_spyre.profile_spyre() as prof:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        x + x
    assert raised == ["Another profile runs in this process, and PyTorch can run one at a time. Stop it first."]
    assert len(export(prof).kernels) == 1


def test_a_profile_within_a_stock_one_is_an_exception(x):
    with profile(activities=ACTIVITIES):
        with pytest.raises(kineto_spyre.SpyreProfilerError, match="Another profile runs"):
            kineto_spyre.profile_spyre().start()


def test_a_second_stop_does_nothing(x, export):
    prof = kineto_spyre.profile_spyre()
    prof.stop()
    prof.start()
    x + x
    prof.stop()
    prof.stop()
    assert len(export(prof).kernels) == 1


def test_a_profile_with_a_schedule_exports_each_cycle(x, tmp_path):
    seen = []

    def ready(prof) -> None:
        path = tmp_path / f"{len(seen)}.json"
        prof.export_chrome_trace(str(path))
        seen.append(len(Trace(path).kernels))

    with kineto_spyre.profile_spyre(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready
    ) as prof:
        for _ in range(8):
            x + x
            prof.step()
    assert seen == [2, 2]


def test_the_profiler_module_has_the_names_of_torchs():
    for name in ("ProfilerActivity", "ProfilerAction", "record_function", "schedule", "tensorboard_trace_handler"):
        assert getattr(profiler, name) is getattr(torch.profiler, name)
    assert issubclass(profiler.profile, torch.profiler.profile)
    with pytest.raises(AttributeError):
        _ = profiler.nonsense
