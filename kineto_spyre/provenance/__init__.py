"""Where a compiled kernel comes from: source lines, ATen ops and debug handles, from what the compiler wrote beside it.

>>> from kineto_spyre import provenance
>>> known = provenance.load("spyre_provenance.json")     # or inductor_provenance_tracking_node_mappings.json
>>> known.origin("spyre_kernel_v1_fused_mm_abcdefghijkl2345#0").lines
>>> provenance.annotate("trace.json", known)              # the same, in the args of each kernel of a trace

Needs no torch. torch-spyre writes spyre_provenance.json (TORCH_SPYRE_PROVENANCE_PATH says where), Inductor writes its
node mappings with INDUCTOR_PROVENANCE=1.
"""

from __future__ import annotations

from kineto_spyre.provenance.annotating import annotate
from kineto_spyre.provenance.known import Known, Origin, ProvenanceError, load

__all__ = ["Known", "Origin", "ProvenanceError", "annotate", "load"]
