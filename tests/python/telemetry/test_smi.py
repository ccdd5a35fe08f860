"""`kineto-spyre smi`, and reading what aiu-smi (or it) printed back into a trace with `kineto-spyre attach`."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import time

import pytest
from metrics import content

from kineto_spyre.telemetry import smi_columns, smi_log

LOAD = """
    import json, sys, time
    from kineto_spyre import emulator
    emulator.enable(devices=1, metrics=sys.argv[1])
    print(emulator.metrics_files()[0], flush=True)
    device = emulator.Device(0)
    sys.stdin.readline()
    time.sleep(0.2)
    step = time.time()
    device.launch("load", ns=3_500_000_000, watts=25, bytes_read=7 << 30)
    device.synchronize()
    print(json.dumps(step), flush=True)
"""


def test_csv_and_text_are_aiu_smis_to_the_letter():
    """As ibm-aiu-smi 1.3.1 printed them for such readings."""
    columns = smi_columns.chosen("DP")
    when = datetime.datetime(2026, 12, 2, 16, 50, 31)
    values = {"pwr": 45.04, "tempr": 42.0, "busy": 99.6, "rdmem": 1.23456, "wrmem": 0.0001, "pt_act": 0.0}
    host = {"hostcpu": 12.34, "hostmem": 5.0}
    assert smi_columns.heading(columns, csv=True) == [
        "ID,Date (YYYYMMDD),Time (HH:MM:SS),hostcpu %,hostmem %,pwr W,tempr C,busy %,rdmem GiB/s,wrmem GiB/s,"
        "rxpci GiB/s,txpci GiB/s,rdrdma GiB/s,wrrdma GiB/s,pt_act %"
    ]
    assert smi_columns.line(0, when, columns, values, host, csv=True) == (
        "0,20261202,16:50:31,12.3,5.0,45.0,42.0,100,1.235,0.001,0.000,0.000,0.000,0.000,0.00"
    )
    assert smi_columns.line(3, when, columns, None, host, csv=True) == (
        "3,20261202,16:50:31,12.3,5.0,0,0,0,0,0,0,0,0,0,0"
    )
    assert smi_columns.heading(columns, csv=False) == [
        "#ID Date      Time      hostcpu hostmem    pwr  tempr   busy    rdmem    wrmem    rxpci    txpci   rdrdma"
        "   wrrdma   pt_act",
        "#   YYYYMMDD  HH:MM:SS        %       %      W      C      %    GiB/s    GiB/s    GiB/s    GiB/s    GiB/s"
        "    GiB/s        %",
    ]
    assert smi_columns.line(0, when, columns, None, host, csv=False).startswith(
        "  0 20261202  16:50:31     12.3     5.0      -      -      -        -"
    )


def test_an_interval_is_summarised_as_aiu_smi_does():
    interval = smi_columns.Interval()
    interval.put({"pwr": 20.0, "tempr": 40.0, "rdmem": 0.0}, 0.01)
    interval.put({"pwr": 30.0, "tempr": 41.0, "rdmem": float(1 << 30)}, 0.5)
    interval.put({"pwr": 40.0, "tempr": 42.0, "rdmem": float(1 << 30)}, 0.5)
    shown = interval.close(0)
    assert shown is not None
    assert (shown["pwr"], shown["tempr"], shown["busy"], shown["rdmem"]) == (35.0, 42.0, 50.0, 1.0)
    interval.put(None, 1)
    assert interval.close(0) is None


@pytest.mark.parametrize("csv", [True, False])
def test_what_smi_prints_is_read_back(csv):
    columns = smi_columns.chosen("A")
    when = datetime.datetime(2026, 12, 2, 16, 50, 31)
    text = "\n".join(
        [
            *smi_columns.files(["/tmp/metrics.x"], csv),
            *smi_columns.heading(columns, csv),
            smi_columns.line(1, when, columns, {"pwr": 45.0, "rdmem": 1.5}, {"hostcpu": 3.0}, csv),
        ]
    )
    log = smi_log.parse(text)
    assert log.columns == [one.name for one in columns] and log.odd == 0
    ((second, values),) = log.lines[1]
    assert second == when.replace(tzinfo=datetime.timezone.utc).timestamp()
    assert (values["pwr"], values["rdmem"], values["hostcpu"]) == (45.0, 1.5, 3.0)


def test_older_headings_and_decimal_gigabytes():
    log = smi_log.parse(
        "ID,Date (YYYYMMDD),Time (HH:MM:SS),pwr W,gtemp C,rdmem GB/s,rsvmem GiB,pt_active %\n"
        "0,20261202,16:50:31,45,61,1.073741824,3,70\nnonsense\n0,20261202,16:50:32,1\n"
    )
    assert log.lines[0][0][1] == {"pwr": 45, "tempr": 61, "rdmem": 1.0, "rsvmem": 3, "pt_act": 70} and log.odd == 2
    named = {event["name"] for event in smi_log.events(log, 0)}
    assert named == {
        "pwr (W)", "temperature (C)", "device memory read (GiB/s)", "aiu-smi rsvmem, unreliable (GiB)",
        "aiu-smi pt_act, unreliable (%)",
    }  # fmt: skip


def test_the_zone_that_lays_the_log_over_the_trace():
    log = smi_log.parse("ID,Date,Time,pwr W\n" + "".join(f"0,20261202,18:20:{s:02d},20\n" for s in range(60)))
    begin = datetime.datetime(2026, 12, 2, 12, 50, 10, tzinfo=datetime.timezone.utc).timestamp()
    assert smi_log.infer_offset(log, int(begin * 1e9), int(begin * 1e9) + 10**10) == 19800  # India
    with pytest.raises(smi_log.LogError, match="does not overlap"):
        smi_log.infer_offset(log, int(begin * 1e9) + 5 * 86400 * 10**9, int(begin * 1e9) + 6 * 86400 * 10**9)
    assert smi_log.offset_of("Asia/Kolkata", log.span[0]) == 19800 == smi_log.offset_of("+05:30", log.span[0])
    with pytest.raises(smi_log.LogError, match="Nowhere"):
        smi_log.offset_of("Nowhere/City", log.span[0])


def test_several_lines_a_second_are_spread_over_it():
    log = smi_log.parse("ID,Date,Time,pwr W\n" + "".join(f"0,20261202,00:00:{i // 4:02d},{i}\n" for i in range(12)))
    begins = [event["time_ns"] for event in smi_log.events(log, 0)]
    assert {after - before for before, after in zip(begins, begins[1:])} == {250_000_000}
    second = int(datetime.datetime(2026, 12, 2, tzinfo=datetime.timezone.utc).timestamp()) * 10**9
    assert begins[0] == second - 125_000_000


def step_in(program, tmp_path):
    """What `program` prints of the emulated card's file, as CSV and as text, while it steps from 20 W to 45 W; and when
    it stepped."""
    environment = os.environ | {"TZ": "UTC"}
    environment.pop("PYTHONSAFEPATH", None)  # aiu-smi imports what lies beside it
    load = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LOAD), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert load.stdin is not None and load.stdout is not None
    path = load.stdout.readline().strip()
    watching = []
    for form in ("--csv", "--text"):
        with open(tmp_path / form, "w") as out:
            watching.append(subprocess.Popen([*program, form, path], stdout=out, env=environment, cwd=tmp_path))
    try:
        until = time.monotonic() + 60
        while not all(has_a_line((tmp_path / form).read_text()) for form in ("--csv", "--text")):
            assert time.monotonic() < until, "no line was printed"
            time.sleep(0.1)
        load.stdin.write("\n")
        load.stdin.flush()
        step = json.loads(load.stdout.readline())
    finally:
        for smi in watching:
            smi.terminate()
            smi.wait()
        load.communicate("")
    return [smi_log.parse((tmp_path / form).read_text()) for form in ("--csv", "--text")], step


def has_a_line(text):
    return any(line.strip()[:1].isdigit() for line in text.splitlines()[:-1])


def check_step(log, step):
    lines = log.lines[0]
    for second, values in lines:  # printed within a second after it; covers the second before
        if second + 1 <= step:
            assert 19.5 <= values["pwr"] <= 20.2, (step, lines)  # aiu-smi counts 0 for its first reading
        elif second >= step + 1 and second + 1 <= step + 3.4:
            assert values["pwr"] == pytest.approx(45, abs=0.3), (step, lines)
            assert values["rdmem"] == pytest.approx(2.0, rel=0.1)  # 7 GiB in 3.5 s
            assert values["busy"] >= 50
    assert any(19.5 <= values["pwr"] <= 20.2 for _, values in lines)
    assert any(44.7 <= values["pwr"] <= 45 for _, values in lines)


def test_a_step_of_power_shows_within_one_line(tmp_path):
    logs, step = step_in([sys.executable, "-m", "kineto_spyre", "smi"], tmp_path)
    for log in logs:
        check_step(log, step)


def real_aiu_smi():
    """The real aiu-smi: named in AIU_SMI, or on the path."""
    found = os.environ.get("AIU_SMI") or shutil.which("aiu-smi")
    if not found:
        pytest.skip("needs ibm-aiu-smi 1.3.1, in an environment of Python 3.12 or newer: AIU_SMI names its aiu-smi")
    python = pathlib.Path(found).with_name("python3")
    main = pathlib.Path(found).resolve().parents[1] / "lib" / "aiu_smi_main.py"
    return [str(python), "-u", str(main), "--pid-file-path", "aiu-smi.pid"]


def test_the_real_aiu_smi_shows_the_emulated_cards_figures(tmp_path):
    logs, step = step_in(real_aiu_smi(), tmp_path)
    for log in logs:
        check_step(log, step)


def test_the_real_spyremetrics_reads_what_we_read(tmp_path):
    from kineto_spyre.telemetry import MetricsFile

    file = tmp_path / "metrics.0"
    file.write_bytes(content(1_234, pwr=451, tempr=623, rdmem=3, wrmem=4, rxpci=5, txpci=6, avgmem=7, peakmem=8))
    program = (
        "import sys, json, spyremetrics as s\n"
        "print(json.dumps({m.name: float(v) for m, v in s.MetricFile(sys.argv[1]).read_metrics()}))"
    )
    done = subprocess.run([real_aiu_smi()[0], "-c", program, str(file)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == pytest.approx(dict(MetricsFile(file).read().values))


def test_attach_states_the_zone_and_the_trace_passes_its_check(tmp_path):
    base = int(datetime.datetime(2026, 12, 2, 12, 50, 10, tzinfo=datetime.timezone.utc).timestamp()) * 10**9
    kernel = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 0.0, "dur": 5e6}
    trace = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": [kernel]}
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    lines = "".join(f"0,20261202,13:50:{10 + s:02d},{45 if s >= 2 else 20},9\n" for s in range(6))
    (tmp_path / "smi.csv").write_text("ID,Date,Time,pwr W,pt_act %\n" + lines)

    def attach(*more):
        return subprocess.run(
            [sys.executable, "-m", "kineto_spyre", "attach", "trace.json", "--smi", "smi.csv", *more],
            cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONSAFEPATH": "1"},
        )  # fmt: skip

    done = attach("-o", "out.json.gz")
    assert done.returncode == 0, done.stderr
    assert "+01:00 from UTC, inferred from the trace" in done.stdout and "pt_act is a model over power" in done.stderr
    done = attach("-o", "out.json", "--timezone", "+01:00")
    assert "+01:00 from UTC, as named" in done.stdout
    whole = json.loads((tmp_path / "out.json").read_text())
    assert whole["kineto_spyre_smi"]["offset_from_utc"] == "+01:00"
    power = [(e["ts"], e["args"]["W"]) for e in whole["traceEvents"] if e["name"] == "pwr (W)"]
    assert power[1:3] == [(0.5e6, 20.0), (1.5e6, 45.0)]  # a line covers the second before it was printed
    assert attach("-o", "out.json").returncode == 2
    assert attach("-o", "trace.json", "--force").returncode == 2
    assert attach("-o", "new.json", "--timezone", "Mars").returncode == 2
    (tmp_path / "smi.csv").write_text("nothing\n")
    done = attach("-o", "new.json")
    assert done.returncode == 2 and "no heading of aiu-smi's" in done.stderr and not (tmp_path / "new.json").exists()
