"""The reader of metrics files: right values, and one sentence for each kind of trouble."""

from __future__ import annotations

import os
import threading

import pytest
from metrics import content

from kineto_spyre.telemetry import MetricsError, MetricsFile, find_files


def test_each_value_has_its_unit(tmp_path):
    file = tmp_path / "metrics.0"
    file.write_bytes(
        content(1_234, pwr=451, tempr=623, rdmem=3, wrmem=4, rxpci=5, txpci=6, avgmem=7, peakmem=8, unknown=9)
    )
    sample = MetricsFile(file).read()
    assert sample.time_ns == 1_234_000_000 and sample.interval_ns == 10_000_000
    assert sample.values == {
        "pwr": 45.1, "tempr": 62.3, "rdmem": 3 * 1024, "wrmem": 4 * 1024, "rxpci": 5 * 1024, "txpci": 6 * 1024,
        "avgmem": 7 * 2**20, "peakmem": 8 * 2**20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (b"", "truncated: it has 0 bytes, and 32 are expected"),
        (content(pwr=1)[:-1], "truncated: it has 127 bytes, and 128 are expected"),
        (content(magic=b"BiuM"), "it begins with b'BiuM'"),
        (content(version=(2, 0, 0, 0), pwr=1), "has version 2.0.0.0, and 1.0 is known"),
        (content(magic=b"!iuM", pwr=1), "was being written each time"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_that_names_the_file(tmp_path, bytes_, words):
    file = tmp_path / "metrics.0"
    file.write_bytes(bytes_)
    with pytest.raises(MetricsError, match=words) as caught:
        MetricsFile(file).read()
    assert str(file) in str(caught.value) and caught.value.torn == (bytes_[:1] == b"!")


def test_a_table_that_reaches_beyond_the_end(tmp_path):
    file = tmp_path / "metrics.0"
    whole = bytearray(content(pwr=1))
    whole[12] = 200  # sections
    file.write_bytes(whole)
    with pytest.raises(MetricsError, match="damaged"):
        MetricsFile(file).read()


def test_a_missing_file_and_one_that_was_replaced(tmp_path):
    file = tmp_path / "metrics.0"
    reader = MetricsFile(file)
    with pytest.raises(MetricsError, match="No such file"):
        reader.read()
    file.write_bytes(content(1, pwr=200))
    assert reader.read().values["pwr"] == 20
    os.replace(_written(tmp_path / "new", content(2, pwr=450)), file)
    assert reader.read().values["pwr"] == 45


def _written(path, data):
    path.write_bytes(data)
    return path


def test_no_torn_sample_is_ever_taken(tmp_path):
    """All values of a written state are equal, so a mixture of two would show."""
    file = tmp_path / "metrics.0"
    file.write_bytes(content(1, pwr=1, tempr=1, rdmem=1, wrmem=1))
    stop = threading.Event()

    def write():
        with open(file, "r+b", buffering=0) as out:
            state = 1
            while not stop.is_set():
                state += 1
                new = content(state, pwr=state, tempr=state, rdmem=state, wrmem=state)
                os.pwrite(out.fileno(), b"!", 0)
                for at in range(1, len(new), 24):
                    os.pwrite(out.fileno(), new[at : at + 24], at)
                os.pwrite(out.fileno(), b"A", 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reader, read = MetricsFile(file), 0
        while read < 300:
            try:
                sample = reader.read()
            except MetricsError as error:
                assert error.torn
                continue
            read += 1
            state = sample.time_ns // 1_000_000
            assert round(sample.values["pwr"] * 10) == state
            assert sample.values["rdmem"] == sample.values["wrmem"] == state * 1024
    finally:
        stop.set()
        writer.join()


def test_files_are_found_as_aiu_smi_finds_them(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "metrics.0000:1a:00.0").touch()
    assert find_files({}) == [str(tmp_path / "metrics.0000:1a:00.0")]
    assert find_files({"AIUSMI_METRIC_FILE": "/a /b"}) == ["/a", "/b"]
    assert find_files({"SPYRE_METRIC_PATH": "/x.%BUSID", "PCIDEVICE_IBM_COM_AIU_PF": "0:1,0:2"}) == ["/x.0:1", "/x.0:2"]
    ranks = {"AIU_WORLD_SIZE": "2", "AIU_WORLD_RANK_0": "p", "AIU_WORLD_RANK_1": "q"}
    assert find_files(ranks) == [str(tmp_path / "metrics.p"), str(tmp_path / "metrics.q")]
