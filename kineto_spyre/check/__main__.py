"""``python -m kineto_spyre.check``."""

import sys

from kineto_spyre.check import main

sys.exit(main())
