"""What XProf's trace viewer is sent of a file, as JSON. A process of its own, since XProf's library logs:

xprof_events.py FILE.xplane.pb OUT.json
"""

import json
import sys

from xprof.convert import raw_to_tool_data

content, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer", {})
with open(sys.argv[2], "w") as out:
    out.write(content if isinstance(content, str) else content.decode())
json.load(open(sys.argv[2]))
