"""HTA's breakdowns of one trace, as JSON. Run by the Python that has HTA:  hta_breakdowns.py TRACE.json OUT.json"""

import json
import sys

from hta.trace_analysis import TraceAnalysis

# The last step too: HTA leaves it out otherwise.
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/", include_last_profiler_step=True)
_, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**6, duration_ratio=1.0)
idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
bandwidth = analysis.get_memory_bw_summary()
result = {
    "steps": [int(step) for step in analysis.get_profiler_steps()],
    "temporal": analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0],
    "kernels": kernels.to_dict("records"),
    "idle": idle.to_dict("records"),
    "overlap": analysis.get_comm_comp_overlap(visualize=False).to_dict("records"),
    "bandwidth": {
        name: row["memory_bw_gbps"].to_dict() for (_, name), row in bandwidth.iterrows()
    } if bandwidth is not None else {},
}  # fmt: skip
with open(sys.argv[2], "w") as out:
    json.dump(result, out, default=float)
