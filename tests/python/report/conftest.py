"""The hand-made events are a module beside these tests."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
