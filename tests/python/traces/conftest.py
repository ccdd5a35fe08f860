"""The hand-made traces are a module beside these tests."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
