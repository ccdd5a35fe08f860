"""The messages between Kineto and its daemon, durations, and the configuration's text."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kineto_spyre.on_demand import Request, parse_duration, protocol


def test_a_process_registers():
    """i32 device, i32 process, i64 job after u64 size and 32 characters of type."""
    datagram = struct.pack("<Q32s", 16, b"ctxt") + struct.pack("<iiq", 2, 4711, 99)
    assert protocol.unpack(datagram) == protocol.Context(device=2, pid=4711, job=99)
    assert protocol.answer_to(protocol.unpack(datagram)) == struct.pack("<Q32s", 4, b"ctxt") + struct.pack("<i", 1)


@pytest.mark.parametrize(("kinds", "idle"), [(3, True), (2, True), (1, False), (0, False)])
def test_a_process_asks(kinds, idle):
    payload = struct.pack("<iiq3i", kinds, 3, 7, 30, 20, 1)
    message = protocol.unpack(struct.pack("<Q32s", len(payload), b"req") + payload)
    assert message == protocol.Ask(idle=idle, job=7, pids=(30, 20, 1))
    assert protocol.answer_to(message, "A=1\n") == struct.pack("<Q32s", 4, b"req") + b"A=1\n"
    assert protocol.answer_to(message) == struct.pack("<Q32s", 0, b"req")


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        bytes(39),
        struct.pack("<Q32s", 0, b"req"),
        struct.pack("<Q32s", 17, b"ctxt") + bytes(16),
        struct.pack("<Q32s", 16, b"ctxtt") + bytes(16),
        struct.pack("<Q32s", 20, b"req") + struct.pack("<iiqi", 3, 2, 0, 1),  # two processes announced, one there
        struct.pack("<Q32s", 16, b"req") + struct.pack("<iiq", 3, -1, 0),
    ],
)
def test_what_is_no_message_is_malformed(datagram):
    with pytest.raises(protocol.Malformed):
        protocol.unpack(datagram)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(datagram):
    try:
        protocol.unpack(datagram)
    except protocol.Malformed:
        pass


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1ms", 1), ("500ms", 500), ("2s", 2000), ("1.5s", 1500), ("1min", 60_000), ("10m", 600_000)],
)
def test_durations(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "500", "0ms", "-1s", "11min", "1h", "1e3s", "nan s", "0.1ms", "s", "1 s s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"not a duration|is not between 1ms and 10min"):
        parse_duration(text)


def test_the_configuration_names_the_devices_kinds_of_work():
    lines = dict(line.split("=") for line in Request(250, shapes=True).text("/tmp/trace.json").splitlines())
    assert lines["ACTIVITIES_LOG_FILE"] == "/tmp/trace.json"
    assert lines["ACTIVITIES_DURATION_MSECS"] == "250"
    assert {"kernel", "privateuse1_runtime", "cpu_op"} <= set(lines["ACTIVITY_TYPES"].split(","))
    assert lines["PROFILE_REPORT_INPUT_SHAPES"] == "true"
    assert "PROFILE_WITH_STACK" not in lines


def test_steps_instead_of_a_duration():
    lines = dict(line.split("=") for line in Request(iterations=3).text("/tmp/trace.json").splitlines())
    assert lines["ACTIVITIES_ITERATIONS"] == "3"
    assert "ACTIVITIES_DURATION_MSECS" not in lines
