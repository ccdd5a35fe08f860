"""HTA's launch statistics, queue lengths and critical path of one trace, as JSON. Run by the Python that has HTA:

hta_launches.py TRACE.json OUT.json
"""

import json
import sys

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/", include_last_profiler_step=True)
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
series = analysis.get_queue_length_time_series()
path, found = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=1)
edges = path.get_critical_path_breakdown()
result = {
    "launches": launches.to_dict("records"),
    "queues": {} if not series else series[0][["stream", "queue_length"]].to_dict("records"),
    "critical_path": {"found": found, "us": edges["duration"].sum(), "bound_by": sorted(set(edges["bound_by"]) - {""})},
}
with open(sys.argv[2], "w") as out:
    json.dump(result, out, default=float)
