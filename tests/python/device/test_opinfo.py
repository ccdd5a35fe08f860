"""A part of PyTorch's operator database; all of it with KINETO_SPYRE_TEST_OPINFO=all (some minutes)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# One of each kind: elementwise, reductions, products, shapes, indexing, linear algebra, random, losses, convolutions.
PART = """
add sub mul div.no_rounding_mode pow exp tanh clamp where sum mean std var amax argmax cumsum logsumexp softmax
log_softmax mm bmm addmm baddbmm matmul einsum linalg.inv linalg.svd linalg.qr linalg.solve cat stack split gather
scatter index_select index_put masked_select nonzero sort topk unique view reshape permute expand as_strided roll flip
tril
nn.functional.linear nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.layer_norm
nn.functional.batch_norm nn.functional.group_norm nn.functional.max_pool2d nn.functional.interpolate.bilinear
nn.functional.cross_entropy nn.functional.mse_loss nn.functional.embedding nn.functional.gelu nn.functional.dropout
nn.functional.scaled_dot_product_attention fft.rfft bernoulli randn normal multinomial""".split()


def sweep(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / "opinfo_sweep.py"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(autouse=True)
def database():
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs the package expecttest")


def test_a_part_of_the_database_equals_the_cpu() -> None:
    out = sweep("--ops", *PART)
    assert f"{len(PART)} ops, 0 crashed" in out
    assert "(100.00 %), backward" in out and out.strip().endswith("(100.00 %)"), out


@pytest.mark.skipif(os.environ.get("KINETO_SPYRE_TEST_OPINFO") != "all", reason="KINETO_SPYRE_TEST_OPINFO is not 'all'")
def test_the_whole_database_fails_where_it_is_known_to(tmp_path) -> None:
    report = tmp_path / "report.md"
    out = sweep("--report", str(report))
    assert " 0 crashed" in out
    forward, backward = (float(part.split(" %")[0]) for part in out.split("(")[1:3])
    assert forward >= 98 and backward >= 98
    assert listed(report) <= listed(HERE / "opinfo_exceptions.md")


def listed(report: pathlib.Path) -> set[str]:
    return {line.split("|")[1].strip() for line in report.read_text().splitlines() if line.startswith("|")}
