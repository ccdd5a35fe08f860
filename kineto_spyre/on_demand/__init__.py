"""Profiles of a running program, asked for from outside.

A program that was started with KINETO_USE_DAEMON=1 asks a daemon (dynolog) every few seconds whether it shall profile.
This package is that daemon for as long as a request takes:

    protocol.py    the messages between Kineto and its daemon
    processes.py   which processes ask, and why another one does not
    request.py     what is asked for: durations and the configuration's text
    daemon.py      answers the processes that were chosen, and waits for their traces

It needs no torch. `kineto-spyre trigger` is its command.
"""

from .daemon import Answered, Daemon
from .processes import Listener, listeners, why_not
from .request import Request, parse_duration

__all__ = ["Answered", "Daemon", "Listener", "Request", "listeners", "parse_duration", "why_not"]
