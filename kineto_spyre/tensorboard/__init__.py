"""Makes the stock torch-tb-profiler show a Spyre, by being installed beside it.

TensorBoard imports every entry point of the group ``tensorboard_plugins`` before it starts a plugin. Ours adds no page
of its own (`Loader.load` returns None); importing it puts right, inside torch-tb-profiler 0.4.3, what keeps three views
from showing a PrivateUse1 device: see `kineto_spyre.tensorboard.stock`.

Nothing here raises: a TensorBoard without torch-tb-profiler, or with one that looks different inside, goes on as if
this package were not there.
"""

from __future__ import annotations

import logging
from typing import Any

from tensorboard.plugins import base_plugin

logger = logging.getLogger(__name__)


class Loader(base_plugin.TBLoader):  # type: ignore[misc]
    """What the entry point names."""

    def load(self, context: Any) -> None:
        """No plugin: TensorBoard skips a loader that returns None."""
        return None


try:
    from kineto_spyre.tensorboard import stock as _stock  # noqa: F401  importing it is what helps
except ImportError:  # no torch-tb-profiler here, or one without these parts
    logger.debug("torch-tb-profiler 0.4.3 not found: nothing to put right", exc_info=True)
except Exception:
    logger.warning("kineto-spyre could not adapt torch-tb-profiler to a Spyre's traces", exc_info=True)
