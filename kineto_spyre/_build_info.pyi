"""Written by the build (_build_info.py.in): what this wheel was compiled against."""

TORCH_VERSION: str  # X.Y
AIUPTI_HEADER: str  # "SDK" or "own"
