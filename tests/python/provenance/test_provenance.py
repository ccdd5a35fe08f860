"""Where kernels come from: the compiler's files are read, and trace and report say it by click and by name."""

from __future__ import annotations

import gzip
import json
import re

import pytest
import torch

import kineto_spyre
from kineto_spyre import provenance, traces
from kineto_spyre.cli import main
from kineto_spyre.report import make

pytestmark = pytest.mark.usefixtures("clean_device")

HERE = __file__.rsplit("/", 1)[-1]


def handle(number, op, line, fused=()):
    source = {"file": "model.py", "start_line": line, "start_col": 4, "end_line": None, "end_col": None}
    return {"id": number, "source": source if line else None, "aten_op": op, "ir_chain": [], "fused_from": list(fused),
            "transform_history": []}  # fmt: skip


def sidecar(key, name):
    """As torch-spyre writes it: one bundle of two ops, one of which was fused from two."""
    handles = {
        "7": handle("7", "aten.mm.default", 117),
        "8": handle("8", None, None, ["9", "10"]),
        "9": handle("9", "aten.add.Tensor", 118),
        "10": handle("10", "aten.relu.default", 119),
    }
    return {
        "schemaVersion": 1, "status": "complete", "diagnostics": {}, "mergeGeneration": 1, "handles": handles,
        "eventKey": {"version": 1, "algorithm": "sha256-prefix-80-base32-lower", "width": 16,
                     "stepAttribution": "bundle"},
        "kernelIdentities": {key: {
            "directHandleIds": ["7", "8"], "specHandleBindings": [], "eventNameBase": name,
            "atenOps": ["aten.add.Tensor", "aten.mm.default", "aten.relu.default"]}},
        "kernelOccurrences": {"a" * 64: {
            "identityKey": key, "compileId": "b" * 64, "compilerKernelName": "sdsc_0",
            "registrations": [{"ordinal": 1, "alias": "sdsc_0:1"}]}},
        "upstreamProjections": {"b" * 64: {
            "cppCodeToPost": {"sdsc_0:1": ["mm", "add", "relu"]}, "postToPre": {"mm": ["linear"], "add": ["linear"]}}},
    }  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return torch.relu(self.up(x))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, two_devices):
    model, x = Model().to("spyre"), torch.ones(8, 64, device="spyre")
    with kineto_spyre.profile_spyre(with_stack=True) as prof:
        model(x)
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    prof.export_chrome_trace(str(path))
    return path


def kernels(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return {one["name"]: one["args"] for one in json.loads(content)["traceEvents"] if one.get("cat") == "kernel"}


@pytest.fixture
def known(recorded, tmp_path):
    """The sidecar of the trace's product, the key of which is in the trace."""
    (name,) = (one for one in kernels(recorded) if re.match("spyre_kernel_v1_(mm|matmul)_", one))
    key = kernels(recorded)[name]["provenance_key"]
    path = tmp_path / "spyre_provenance.json"
    path.write_text(json.dumps(sidecar(key, name.partition("#")[0])))
    return path, name


def test_a_spyres_sidecar_answers_by_the_key_in_the_name(known):
    path, name = known
    loaded = provenance.load(path)
    assert loaded.complete
    origin = loaded.origin(name)
    assert origin == loaded.origin(name.partition("#")[0])
    assert origin.aten_ops == ("aten.mm.default", "aten.add.Tensor", "aten.relu.default")
    assert origin.lines == ("model.py:117", "model.py:118", "model.py:119")
    assert origin.handles == ("7", "8") and origin.nodes == ("linear", "relu")
    assert loaded.origin("spyre_kernel_v1_mm_aaaaaaaaaaaaaaaa#0") is None is loaded.origin("gemm")


def test_inductors_mappings_answer_by_name_with_lines_where_the_stacks_are(tmp_path):
    path = tmp_path / "inductor_provenance_tracking_node_mappings.json"
    mappings = {"version": 2.0, "preToPost": {}, "postToCppCode": {}, "postToPre": {"mm": ["linear"]},
                "cppCodeToPost": {"cpp_fused_0:1": ["mm", "relu"], "cpp_fused_0:3": ["mm_1"]}}  # fmt: skip
    path.write_text(json.dumps(mappings))
    assert provenance.load(path).origin("cpp_fused_0") == provenance.Origin(nodes=("linear", "relu", "mm_1"))
    stack = 'File "model.py", line 5, in forward\n  x = f(x)\nFile "model.py", line 9, in f\n  return x @ w\n'
    (tmp_path / "inductor_provenance_tracking_kernel_stack_traces.json").write_text(
        json.dumps({"cpp_fused_0:1": [stack]})
    )
    assert provenance.load(path).origin("cpp_fused_0").lines == ("model.py:9",)


def test_real_mappings_of_inductor(tmp_path, monkeypatch):
    """torch.compile for the CPU writes what is read here."""
    from torch._inductor import config
    from torch._inductor.debug import dump_inductor_provenance_info  # noqa: F401  (the release has it)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    with config.patch({"trace.enabled": True, "trace.debug_dir": str(tmp_path), "trace.provenance_tracking_level": 1,
                       "force_disable_caches": True}):  # fmt: skip
        torch.compile(lambda x: torch.mm(x, x))(torch.ones(4, 4))
    (path,) = tmp_path.rglob("inductor_provenance_tracking_node_mappings*.json")
    loaded = provenance.load(path)
    assert any("mm" in origin.nodes for origin in loaded.by_name.values()), path.read_text()


@pytest.mark.parametrize("packed", [False, True])
def test_annotate_writes_it_into_the_kernels_arguments(recorded, known, tmp_path, capsys, packed):
    path, name = known
    trace = tmp_path / ("trace.json.gz" if packed else "trace.json")
    trace.write_bytes(gzip.compress(recorded.read_bytes()) if packed else recorded.read_bytes())
    before = kernels(trace)
    assert main(["annotate", str(trace), "--provenance", str(path)]) == 0
    assert f"the origin of 1 of {len(before)} kernels was written" in capsys.readouterr().out
    after = kernels(trace)
    args = after[name]
    assert args["debug_handles"] == ["7", "8"]
    assert args["aten_ops"] == ["aten.mm.default", "aten.add.Tensor", "aten.relu.default"]
    assert args["source"] == ["model.py:117", "model.py:118", "model.py:119"] and args["nodes"] == ["linear", "relu"]
    assert args["module"].startswith("Linear")
    assert all(args["module"].startswith(("Linear", "Model")) for args in after.values())
    added = {"debug_handles", "aten_ops", "source", "nodes", "module"}
    assert {one: {k: v for k, v in args.items() if k not in added} for one, args in after.items()} == before
    assert traces.check(trace)["sound"] == traces.check(recorded)["sound"]


def test_the_report_says_it_by_name(recorded, known):
    path, name = known
    made = make(recorded, provenance=path)
    (one,) = (one for one in made.facts["origins"] if one["name"] == name)
    assert one["known"] and one["aten_ops"][0] == "aten.mm.default" and one["debug_handles"] == ["7", "8"]
    assert one["modules"][0].startswith("Linear")
    lines = str(made).splitlines()
    table = lines[lines.index("Where kernels come from") :]
    row = next(line for line in table if line.startswith(name))
    assert "aten.mm.default, aten.add.Tensor" in row and "Linear" in row and "model.py:117" in row


def test_without_a_file_the_trace_itself_tells_op_module_and_line(recorded):
    (relu,) = (one for one in make(recorded).facts["origins"] if "relu" in one["name"] or "clamp" in one["name"])
    assert not relu["known"] and relu["ops"][0].startswith("aten::")
    assert relu["modules"][0].startswith("Model")
    (line,) = relu["lines"]
    with open(__file__, encoding="utf-8") as file:
        begins = 1 + ["    def forward(self, x):\n" in one for one in file].index(True)
    assert line.endswith(f"{HERE}:{begins}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "can't be opened"),
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ("{}", "is neither a spyre_provenance.json nor"),
        ('{"schemaVersion": 2}', "has schemaVersion 2 and this release reads 1"),
        ('{"schemaVersion": 1, "kernelIdentities": {"abcdefghijkl2345": 5}, "handles": []}', "knows none of the"),
    ],
)
def test_bad_input_is_one_sentence(recorded, tmp_path, capsys, text, says):
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    code = main(["annotate", str(recorded), "--provenance", str(path), "--out", str(tmp_path / "out.json")])
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and code == (1 if "knows none" in says else 2)
    if code == 2:
        assert main(["report", str(recorded), "--provenance", str(path)]) == 2
        assert says in capsys.readouterr().err
