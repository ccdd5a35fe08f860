"""What marked ops took within their kernels (kineto_spyre.instrument): the track "kernel phases" of a trace.

_layer.py   puts the track into a trace
"""
