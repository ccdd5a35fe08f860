"""Perfetto's own parser, asked in SQL:  perfetto.py TRACE.json  < list of queries in JSON  > list of tables in JSON

Debian's package chromium-shell brings Perfetto's trace processor as a shared library with a small C++ test class on top
(base::test::TestTraceProcessorImpl): ParseTrace takes a vector of bytes, ExecuteQuery takes SQL and returns rows of
strings. ctypes calls both; the few libc++ objects that cross the border are laid out by hand below:

    std::string    24 bytes, little endian. First byte even: short, its upper 7 bits are the size, text from byte 1 on.
                   Odd: long; capacity (bit 0 set), size, pointer to the text.
    std::vector    24 bytes: begin, end, end of capacity

A process of its own is used for each trace, and left by os._exit: the library's static destructors expect a browser.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

LIBRARY = "/usr/lib/chromium/libtest_trace_processor.so"
CLASS = "_ZN4base4test22TestTraceProcessorImpl"
POINTER = ctypes.sizeof(ctypes.c_void_p)


def _text(address: int) -> str:
    first = ctypes.c_uint8.from_address(address).value
    if first & 1:
        size = ctypes.c_uint64.from_address(address + POINTER).value
        data = ctypes.c_uint64.from_address(address + 2 * POINTER).value
    else:
        size, data = first >> 1, address + 1
    return ctypes.string_at(data, size).decode("utf-8", "replace")


class TraceProcessor:
    def __init__(self) -> None:
        symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        names = [line.split()[-1] for line in symbols.stdout.splitlines() if line.strip()]
        self._library = ctypes.CDLL(LIBRARY)

        def function(start: str):
            found = getattr(self._library, next(name for name in names if name.startswith(start)))
            found.restype = None
            return found

        self._parse = function(f"{CLASS}10ParseTraceE")
        self._query = function(CLASS.replace("_ZN", "_ZNK") + "12ExecuteQueryE")
        self._free = function("_ZN4base4test18QueryResultOrErrorD1Ev")
        self._self = (ctypes.c_uint64 * 8)()
        function(f"{CLASS}C1Ev")(ctypes.byref(self._self))

    def parse(self, content: bytes) -> None:
        data = ctypes.create_string_buffer(content, len(content))
        begin = ctypes.addressof(data)
        vector = (ctypes.c_uint64 * 3)(begin, begin + len(content), begin + len(content))
        status = (ctypes.c_uint64 * 32)()  # absl::Status; 1 is "ok"
        self._parse(ctypes.byref(status), ctypes.byref(self._self), ctypes.byref(vector))
        if status[0] != 1:
            raise RuntimeError("Perfetto's parser refused the trace")

    def query(self, sql: str) -> list[list[str]]:
        """The rows, the column names first."""
        data = sql.encode()
        buffer = ctypes.create_string_buffer(data)
        string = (ctypes.c_uint64 * 3)((len(data) + 16) | 1, len(data), ctypes.addressof(buffer))
        answer = (ctypes.c_uint64 * 16)()  # vector<vector<string>>, then the error's string
        self._query(ctypes.byref(answer), ctypes.byref(self._self), ctypes.byref(string))
        try:
            error = _text(ctypes.addressof(answer) + 3 * POINTER)
            if error:
                raise RuntimeError(error)
            rows = []
            for row in range(answer[0], answer[1], 3 * POINTER):
                begin, end = (ctypes.c_uint64.from_address(row + offset).value for offset in (0, POINTER))
                rows.append([_text(cell) for cell in range(begin, end, 3 * POINTER)])
            return rows
        finally:
            self._free(ctypes.byref(answer))


if __name__ == "__main__":
    processor = TraceProcessor()
    processor.parse(pathlib.Path(sys.argv[1]).read_bytes())
    print(json.dumps([processor.query(sql) for sql in json.load(sys.stdin)]), flush=True)
    os._exit(0)
