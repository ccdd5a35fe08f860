"""``python -m kineto_spyre``: the command `kineto-spyre` (kineto_spyre.cli)."""

import sys

from kineto_spyre.cli import main

if __name__ == "__main__":
    sys.exit(main())
