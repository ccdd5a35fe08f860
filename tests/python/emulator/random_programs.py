"""Random programs against the C interface of the emulated runtime, on several threads, with a client of libaiupti that
comes and goes, and with faults. Run by test_random_programs.py in a process of its own, where a hang can be seen.

    python random_programs.py SECONDS

A program is a list of threads, a thread a list of steps. Whatever the steps are, no call hangs; each returns an error
that it may; and once the faults are cleared and the devices are done, every function that was accepted has run once (if
no device was lost), in the order of its stream, and all memory is back.
"""

from __future__ import annotations

import ctypes
import faulthandler
import pathlib
import sys
import threading
import time

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kineto_spyre

LIB = pathlib.Path(kineto_spyre.__file__).parent / "lib"
runtime = ctypes.CDLL(str(LIB / "libspyre_emulator.so"), mode=ctypes.RTLD_GLOBAL)
aiupti = ctypes.CDLL(str(LIB / "libaiupti_emulated.so"))
register = aiupti._Z31aiuptiActivityRegisterCallbacksPFvPPhPmS1_EPFvS_mmE
enable = aiupti._Z20aiuptiActivityEnable19AIUpti_ActivityKind
disable = aiupti._Z21aiuptiActivityDisable19AIUpti_ActivityKind
flush = aiupti._Z24aiuptiFlushAllActivitiesv
next_record = aiupti._Z27aiuptiActivityGetNextRecordPhmPP15AIUpti_Activity

SUCCESS, INVALID, OOM, NOT_READY, LOST, TIMEOUT = 0, 1, 2, 5, 6, 7
DEVICES, STREAMS, EVENTS, MEMORY = 2, 3, 3, 1 << 20
u64, p = ctypes.c_uint64, ctypes.c_void_p


class Config(ctypes.Structure):
    _fields_ = [("devices", ctypes.c_int32), ("memory", u64), ("time", ctypes.c_int), ("has_seed", ctypes.c_int32),
                ("seed", u64)]  # fmt: skip


WORK = ctypes.CFUNCTYPE(None, p)


class Kernel(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("ns", ctypes.c_int64), ("flops", ctypes.c_double), ("read", u64),
                ("written", u64), ("dtype", ctypes.c_int), ("measured_ns", ctypes.c_int64), ("work", WORK),
                ("argument", p), ("watts", ctypes.c_double), ("count", ctypes.c_int32)]  # fmt: skip


for name in ("spyreStreamWaitEvent", "spyreEventRecord"):
    getattr(runtime, name).restype = ctypes.c_int
runtime.spyreLaunchKernel.argtypes = [ctypes.c_int32, p, ctypes.POINTER(Kernel)]
runtime.spyreMalloc.argtypes = [ctypes.c_int32, u64, p, ctypes.POINTER(p)]
runtime.spyreFree.argtypes = [ctypes.c_int32, p]
runtime.spyreMemcpy.argtypes = [ctypes.c_int32, p, p, u64, ctypes.c_int, p, ctypes.c_int32]
runtime.spyreMemset.argtypes = [ctypes.c_int32, p, ctypes.c_int32, u64, p, ctypes.c_int32]
runtime.spyreStreamGet.argtypes = [ctypes.c_int32, ctypes.c_uint32, ctypes.POINTER(p)]
runtime.spyreStreamQuery.argtypes = runtime.spyreStreamSynchronize.argtypes = [ctypes.c_int32, p]
runtime.spyreStreamWaitEvent.argtypes = [ctypes.c_int32, p, p]
runtime.spyreEventCreate.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(p)]
runtime.spyreEventRecord.argtypes = [p, ctypes.c_int32, p]
for name in ("Query", "Synchronize", "Destroy"):
    getattr(runtime, f"spyreEvent{name}").argtypes = [p]
runtime.spyreMemGetInfo.argtypes = [ctypes.c_int32, ctypes.POINTER(u64), ctypes.POINTER(u64)]
runtime.spyreSetFaults.argtypes = [ctypes.c_char_p]
next_record.argtypes = [p, u64, ctypes.POINTER(p)]

# Buffers for libaiupti: few, small, and used again.
_buffers = [ctypes.create_string_buffer(8192) for _ in range(16)]
_free = [ctypes.addressof(b) for b in _buffers]
_lock = threading.Lock()


@ctypes.CFUNCTYPE(None, ctypes.POINTER(p), ctypes.POINTER(u64), ctypes.POINTER(u64))
def _request(buffer, size, records):
    with _lock:
        buffer[0] = _free.pop() if _free else None
    size[0], records[0] = 8192, 0


@ctypes.CFUNCTYPE(None, p, u64, u64)
def _complete(buffer, size, valid):
    record = p()
    while next_record(buffer, valid, ctypes.byref(record)) != 3:
        pass
    with _lock:
        if buffer not in _free:
            _free.append(buffer)


class Machine:
    """What the threads of a program share."""

    def __init__(self) -> None:
        self.streams = {}
        self.events = {}
        self.ran: dict[tuple[int, int], list[int]] = {}
        self.accepted: dict[tuple[int, int], list[int]] = {}
        self.locks = {}
        self.functions = []  # kept alive
        self.unexpected: list[str] = []
        self.lossy = False
        for device in range(DEVICES):
            for stream in range(STREAMS):
                found = p()
                assert runtime.spyreStreamGet(device, stream + 1, ctypes.byref(found)) == SUCCESS
                self.streams[device, stream] = found
                self.ran[device, stream], self.accepted[device, stream] = [], []
                self.locks[device, stream] = threading.Lock()
            for event in range(EVENTS):
                made = p()
                assert runtime.spyreEventCreate(device, event % 2, ctypes.byref(made)) == SUCCESS
                self.events[device, event] = made

    def expect(self, what: str, result: int, *allowed: int) -> int:
        if result not in (SUCCESS, LOST, *allowed):
            self.unexpected.append(f"{what} returned {result}")
        return result

    def run(self, step: tuple) -> None:
        what, device, stream, event, number = step
        on = self.streams[device, stream]
        mark = self.events[device, event]
        if what == "launch":
            kernel = Kernel(b"random", number % 5000 - 1, number, number, number, 0, -1, WORK(), None, 1 + number % 4)
            self.expect(what, runtime.spyreLaunchKernel(device, on, ctypes.byref(kernel)))
        elif what == "function":
            with self.locks[device, stream]:
                key, place = (device, stream), len(self.accepted[device, stream])
                function = WORK(lambda _: self.ran[key].append(place))
                self.functions.append(function)
                kernel = Kernel(b"function", number % 5000 - 1, 0, 0, 0, 0, -1, function, None, 1)
                if self.expect(what, runtime.spyreLaunchKernel(device, on, ctypes.byref(kernel))) == SUCCESS:
                    self.accepted[key].append(place)
        elif what == "copy":
            kind = 1 + number % 3
            self.expect(what, runtime.spyreMemcpy(device, None, None, number, kind, on, 2 * (number % 2)), TIMEOUT)
        elif what == "memory":
            address, host = p(), ctypes.create_string_buffer(b"x" * 256)
            if self.expect(what, runtime.spyreMalloc(device, 256 + number, on, ctypes.byref(address)), OOM) == SUCCESS:
                self.expect(what, runtime.spyreMemcpy(device, address, host, 256, 1, on, number % 4), TIMEOUT)
                self.expect(what, runtime.spyreMemset(device, address, 1, 256, on, number % 4), TIMEOUT)
                self.functions.append(host)
                self.expect(what, runtime.spyreFree(device, address))
        elif what == "record":
            self.expect(what, runtime.spyreEventRecord(mark, device, on))
        elif what == "wait":
            other = number % DEVICES
            self.expect(what, runtime.spyreStreamWaitEvent(device, on, self.events[other, event]))
        elif what == "query":
            self.expect(what, runtime.spyreStreamQuery(device, on), NOT_READY)
            self.expect(what, runtime.spyreEventQuery(mark), NOT_READY)
        elif what == "synchronize":
            self.expect(what, runtime.spyreStreamSynchronize(device, on), TIMEOUT)
            if number % 2:
                self.expect(what, runtime.spyreEventSynchronize(mark), TIMEOUT)
            if number % 5 == 0:
                self.expect(what, runtime.spyreDeviceSynchronize(device), TIMEOUT)
        elif what == "trace":
            kind = 1 + number % 7
            (enable if number % 2 else disable)(kind)
        elif what == "flush":
            flush()
        elif what == "faults":
            specification = FAULTS[number % len(FAULTS)]
            self.lossy |= b"device_lost" in specification
            assert runtime.spyreSetFaults(specification) == SUCCESS

    def end(self) -> None:
        assert runtime.spyreSetFaults(b"") == SUCCESS
        for device in range(DEVICES):
            self.expect("the last synchronize", runtime.spyreDeviceSynchronize(device))
        for kind in range(1, 8):
            disable(kind)
        flush()
        assert not self.unexpected, self.unexpected
        for key, accepted in self.accepted.items():
            ran = self.ran[key]
            assert ran == sorted(set(ran)), (key, ran)
            if not self.lossy:
                assert ran == accepted, (key, ran, accepted)
        for device in range(DEVICES):
            free, total = u64(), u64()
            assert runtime.spyreMemGetInfo(device, ctypes.byref(free), ctypes.byref(total)) == SUCCESS
            assert free.value == total.value
        for mark in self.events.values():
            assert runtime.spyreEventDestroy(mark) == SUCCESS
        assert len(_free) == len(_buffers), "buffers did not come back"


FAULTS = [
    b"",
    b"hang=1,timeout=2ms",
    b"hang=0:2,timeout=1ms",
    b"device_lost=3",
    b"device_lost=1:0",
    b"late=1ms,duplicate=2,torn=3",
    b"early=1,shuffle=1,size=+40",
    b"clock_offset=5ms,clock_drift=100,no_buffers=2",
    b"drop=2,swap_buffers=1,complete_twice=2",
]

# Twice those that give the others something to do.
STEPS = "launch launch function function copy memory record wait query synchronize trace flush faults".split()
step = st.tuples(
    st.sampled_from(STEPS),
    st.integers(0, DEVICES - 1),
    st.integers(0, STREAMS - 1),
    st.integers(0, EVENTS - 1),
    st.integers(0, 20_000),
)
program = st.lists(st.lists(step, max_size=30), min_size=1, max_size=4)

programs = 0


def run_program(threads: list[list[tuple]], measured: bool) -> None:
    global programs
    programs += 1
    faulthandler.dump_traceback_later(60, exit=True)
    config = Config(DEVICES, MEMORY, int(measured), 1, 1)
    assert runtime.spyreInit(ctypes.byref(config)) == SUCCESS
    assert register(_request, _complete) == 0
    machine = Machine()

    def run(steps: list[tuple]) -> None:
        for one in steps:
            machine.run(one)

    hosts = [threading.Thread(target=run, args=(steps,)) for steps in threads]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    machine.end()
    faulthandler.cancel_dump_traceback_later()


@settings(
    max_examples=50,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(program, st.booleans())
def search(threads, measured):
    run_program(threads, measured)


def main(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        search()
    print(f"{programs} programs")


if __name__ == "__main__":
    main(float(sys.argv[1]))
