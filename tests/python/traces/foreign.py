"""Traces of other devices, by the form that Kineto publishes (output_json.cpp, the handlers of CUPTI and XPUPTI)."""

from __future__ import annotations

from typing import Any


def _host(names: list[str], category: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        ts = 1000.0 + 50.0 * i
        events += [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mm",
                "pid": 77,
                "tid": 77,
                "ts": ts,
                "dur": 40.5,
                "args": {
                    "External id": 10 + i,
                    "Record function id": 0,
                    "Input Dims": [[64, 64], [64, 64]],
                    "Ev Idx": i,
                },
            },
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": 77,
                "tid": 77,
                "ts": ts + 5,
                "dur": 6.25,
                "args": {"External id": 10 + i, "cbid": 211, "correlation": 100 + i},
            },
            {"ph": "s", "id": 100 + i, "pid": 77, "tid": 77, "ts": ts + 5, "cat": "ac2g", "name": "ac2g"},
        ]
    return events


def _flow_end(number: int, tid: Any, ts: float) -> dict[str, Any]:
    return {"ph": "f", "id": number, "pid": 0, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g", "bp": "e"}


def _document(events: list[dict[str, Any]], properties: dict[str, Any], label: str) -> dict[str, Any]:
    names = [
        {"name": "process_name", "ph": "M", "ts": 1000.0, "pid": pid, "tid": 0, "args": {"name": "python"}}
        for pid in (77, 0)
    ] + [
        {"name": "process_labels", "ph": "M", "ts": 1000.0, "pid": pid, "tid": 0, "args": {"labels": labels}}
        for pid, labels in ((77, "CPU"), (0, label))
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [properties],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1727743122000000000,
        "traceEvents": [*names, *events],
        "traceName": "trace.json",
    }


def cuda() -> dict[str, Any]:
    """Three kernels and a copy on an NVIDIA card."""
    events = _host(["cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaLaunchKernel"], "cuda_runtime")
    for i in range(4):
        common = {"External id": 10 + i, "device": 0, "context": 1, "stream": 7, "correlation": 100 + i}
        ts = 1012.0 + 60.0 * i
        if i == 2:
            events.append(
                {
                    "ph": "X",
                    "cat": "gpu_memcpy",
                    "name": "Memcpy HtoD (Pageable -> Device)",
                    "pid": 0,
                    "tid": 7,
                    "ts": ts,
                    "dur": 3.0,
                    "args": {**common, "bytes": 16384, "memory bandwidth (GB/s)": 5.4613},
                }
            )
        else:
            more = {
                "queued": 0,
                "registers per thread": 32,
                "shared memory": 0,
                "blocks per SM": 0.5,
                "warps per SM": 4.0,
                "grid": [64, 1, 1],
                "block": [128, 1, 1],
                "est. achieved occupancy %": 8,
            }
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": "ampere_sgemm_64x64_nn",
                    "pid": 0,
                    "tid": 7,
                    "ts": ts,
                    "dur": 20.0 + i,
                    "args": more | common,
                }
            )
        events.append(_flow_end(100 + i, 7, ts))
    events.append(
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaDeviceSynchronize",
            "pid": 77,
            "tid": 77,
            "ts": 1200.0,
            "dur": 60.0,
            "args": {"cbid": 165, "correlation": 200},
        }
    )
    return _document(events, {"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42298834944}, "GPU 0")


def xpu() -> dict[str, Any]:
    """Three kernels on an Intel card. Its activities name the queue, and have no stream of CUDA's kind."""
    events = _host(["urEnqueueKernelLaunch"] * 3, "xpu_runtime")
    for i in range(3):
        ts = 1012.0 + 60.0 * i
        args = {
            "External id": 10 + i,
            "correlation": 100 + i,
            "appended": f"{ts - 3:.3f}",
            "appended_rel_to_start": "-3.0",
            "submitted": f"{ts - 1:.3f}",
            "submitted_rel_to_start": "-1.0",
            "device": 0,
            "context": "0x0000000001",
            "sycl queue": 2,
            "l0 queue": "0x02",
            "kernel_id": 5 + i,
        }
        events += [
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm_kernel",
                "pid": 0,
                "tid": 2,
                "ts": ts,
                "dur": 20.0,
                "args": args,
            },
            _flow_end(100 + i, 2, ts),
        ]
    return _document(events, {"id": 0, "name": "Intel(R) Data Center GPU Max 1550"}, "XPU 0")
