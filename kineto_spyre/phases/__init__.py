"""What happens within kernels: the track "kernel phases" of a trace.

_layer.py         what marked ops took of their kernels (kineto_spyre.instrument)
_stamps_layer.py  what the card's cycle stamps tell of each kernel: data in, prepare, compute, data out
"""
