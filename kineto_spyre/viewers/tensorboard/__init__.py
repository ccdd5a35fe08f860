"""kineto-spyre's part in TensorBoard: a page with the report of a trace, and what the stock profiler plugin lacks.

TensorBoard imports every entry point of the group ``tensorboard_plugins`` before it starts a plugin. Ours brings the
page (`kineto_spyre.viewers.tensorboard.report_page`); importing it puts right, inside torch-tb-profiler 0.4.3, what
keeps three views from showing a PrivateUse1 device (`kineto_spyre.viewers.tensorboard.stock`).

Nothing here raises: a TensorBoard without torch-tb-profiler, or of a version that looks different inside, goes on as if
this package were not there.
"""

from __future__ import annotations

import logging
from typing import Any

from tensorboard.plugins import base_plugin

logger = logging.getLogger(__name__)


class Loader(base_plugin.TBLoader):  # type: ignore[misc]
    """What the entry point names."""

    def load(self, context: Any) -> Any:
        """The page's plugin; None if this TensorBoard can't have it, which it then skips."""
        try:
            from kineto_spyre.viewers.tensorboard.report_page import ReportPlugin

            plugin = ReportPlugin(context)
            # What TensorBoard asks for later, where nobody catches what another version makes of it.
            plugin.get_plugin_apps()
            plugin.frontend_metadata()
        except Exception:
            logger.warning("kineto-spyre could not add its page, SPYRE REPORT, to this TensorBoard", exc_info=True)
            return None
        return plugin


try:
    from kineto_spyre.viewers.tensorboard import stock as _stock  # noqa: F401  importing it is what helps
except ImportError:  # no torch-tb-profiler here, or one without these parts
    logger.debug("torch-tb-profiler 0.4.3 not found: nothing to correct", exc_info=True)
except Exception:
    logger.warning("kineto-spyre could not adapt torch-tb-profiler to a Spyre's traces", exc_info=True)
