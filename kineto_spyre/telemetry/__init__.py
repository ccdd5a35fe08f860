"""Telemetry: power, temperature and traffic of each card, while a profile runs or from a log of aiu-smi. No torch.

>>> from kineto_spyre import telemetry
>>> with telemetry.Sampler(telemetry.find_files(), hz=10) as sampler: ...
>>> sampler.cards[0].samples[-1].values["pwr"]
45.0

`metrics_file` reads one file, `sampler` reads all of them again and again, `counters` makes counter tracks of what was
read, `smi_log` reads what aiu-smi printed, and `smi_columns` says what its columns are.
"""

from __future__ import annotations

from kineto_spyre.telemetry.metrics_file import MetricsError, MetricsFile, Sample, find_files
from kineto_spyre.telemetry.sampler import Card, Sampler

__all__ = ["Card", "MetricsError", "MetricsFile", "Sample", "Sampler", "find_files"]
