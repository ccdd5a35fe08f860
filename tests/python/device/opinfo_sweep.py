"""PyTorch's operator database on the emulated Spyre: each sample's results, and its gradients, against the CPU's.

    python tests/python/device/opinfo_sweep.py [--ops NAME ...] [--report FILE]

For each OpInfo with float32: its float32 samples are made on the CPU with a fixed seed, copied to the device with
their strides and storage, and the op is run on both with equal seeds. A sample passes if results are equal bit by bit
(values, NaN positions, dtype, shape); so for the gradients of its inputs, if the op is differentiable.

Ops run in forked children, so that one that crashes is told and the rest go on. `--report` writes the ops that don't
pass in full with their reasons.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import traceback
import warnings

# Their result is memory that nobody wrote: there is nothing to compare.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

GELSY = (
    "the CPU's own results vary from call to call: LAPACK's gelsy reads pivots that PyTorch does not "
    "initialise, so what lay in memory before decides"
)
# What the reasons found by the sweep can't say.
WHY = {
    "linalg.lstsq": GELSY,
    "linalg.lstsq.grad_oriented": GELSY,
    "tensor_split": "as for every device, indices must be on the CPU; the sweep moves them",
}


@dataclasses.dataclass
class Outcome:
    """What became of one op: numbers of samples, and the first reason of each kind."""

    op: str
    forward: int = 0
    forward_equal: int = 0
    backward: int = 0
    backward_equal: int = 0
    reasons: list[str] = dataclasses.field(default_factory=list)
    crashed: bool = False

    @property
    def equal(self) -> bool:
        return (
            not self.crashed
            and not self.reasons
            and self.forward == self.forward_equal
            and self.backward == self.backward_equal
        )


def full_name(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def ops():
    """Those of the database that have float32 samples, by name."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return {full_name(op): op for op in op_db if op.supports_dtype(torch.float32, "cpu")}


def to_device(tree, device: str):
    """A copy of nested samples with every tensor on the device, as it lies in its storage."""
    import torch
    from torch.utils._pytree import tree_map

    def move(x):
        if isinstance(x, torch.Tensor):
            if x.layout != torch.strided:
                return x.to(device)
            bare = x.detach()
            conj, neg = bare.is_conj(), bare.is_neg()
            whole = bare.as_strided((bare.untyped_storage().nbytes() // bare.element_size(),), (1,), 0)
            if conj:
                whole = whole.conj()
            if neg:
                whole = torch._neg_view(whole)
            moved = whole.to(device).as_strided(x.size(), x.stride(), x.storage_offset())
            if conj:
                moved = moved.conj()
            if neg:
                moved = torch._neg_view(moved)
            return moved.requires_grad_(x.requires_grad)
        if isinstance(x, (torch.device, str)) and str(x) == "cpu":
            return torch.device(device)
        return x

    return tree_map(move, tree)


def tensors(tree):
    import torch
    from torch.utils._pytree import tree_leaves

    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def mentions_a_device(tree) -> bool:
    import torch

    return any(isinstance(x, torch.device) for x in leaves(tree))


def leaves(tree):
    from torch.utils._pytree import tree_leaves

    return tree_leaves(tree)


def difference(cpu, device, place: str = "spyre") -> str | None:
    """None if equal bit by bit and on a device of the type `place`, else what differs."""
    import torch

    if isinstance(cpu, torch.Tensor) != isinstance(device, torch.Tensor):
        return f"{type(cpu).__name__} on the CPU, {type(device).__name__} on the device"
    if not isinstance(cpu, torch.Tensor):
        same = cpu == device or (cpu != cpu and device != device)
        return None if same else f"{cpu!r} on the CPU, {device!r} on the device"
    if cpu.dtype != device.dtype:
        return f"dtype {cpu.dtype} on the CPU, {device.dtype} on the device"
    if cpu.shape != device.shape:
        return f"shape {tuple(cpu.shape)} on the CPU, {tuple(device.shape)} on the device"
    if cpu.layout == torch.strided and device.device.type != place:
        return f"the result is on {device.device}"
    if cpu.layout != torch.strided:
        cpu, device = cpu.to_dense(), device.to_dense()
    a, b = cpu.detach().resolve_conj().resolve_neg(), device.detach().cpu().resolve_conj().resolve_neg()
    if a.is_quantized:
        a, b = a.int_repr(), b.int_repr()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if torch.equal(a, b):
        return None
    if a.is_floating_point():
        unequal = ~((a == b) | (a.isnan() & b.isnan()))
        if not unequal.any():
            return None
        worst = (a - b).abs()[unequal].max().item()
        return f"{int(unequal.sum())} of {a.numel()} values differ, by at most {worst:.3g}"
    return f"{int((a != b).sum())} of {a.numel()} values differ"


def run_op(name: str, op, device: str) -> Outcome:
    import torch

    from kineto_spyre import _device

    outcome = Outcome(name)
    reasons: dict[str, str] = {}

    def fail(kind: str, why: str) -> None:
        reasons.setdefault(kind, f"{kind}: {' '.join(why.split())[:300]}")

    moved_before = _device.bytes_moved()
    differentiable = op.supports_autograd and op.supports_dtype(torch.float32, "cpu")
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable))
    for sample in samples:
        results, inputs = [], []
        for place in ("cpu", device):
            arguments = (sample.input, sample.args, sample.kwargs)
            moved = to_device(arguments, device) if place != "cpu" else arguments
            torch.manual_seed(0)
            try:
                results.append(op(moved[0], *moved[1], **moved[2]))
            except Exception as e:
                results.append(e)
            inputs.append([t for t in tensors(moved) if t.requires_grad])
        cpu, ours = results
        if isinstance(cpu, Exception):
            continue  # not a sample that the CPU takes
        outcome.forward += 1
        if isinstance(ours, Exception):
            fail("forward", f"{type(ours).__name__}: {ours}")
            continue
        if name.split(".")[0] not in UNINITIALISED:
            pairs = list(zip(leaves(cpu), leaves(ours)))
            # A sample that names neither a tensor nor a device makes a CPU tensor on both sides.
            where = "spyre" if tensors(moved) or mentions_a_device(moved) else "cpu"
            wrong = next((d for d in (difference(a, b, where) for a, b in pairs) if d), None)
            if wrong or len(leaves(cpu)) != len(leaves(ours)):
                fail("forward", wrong or "another number of results")
                continue
        outcome.forward_equal += 1
        if not differentiable:
            continue

        gradients = []
        for result, ins in zip(results, inputs):
            try:
                outs = [t for t in tensors(result) if t.requires_grad and t.layout == torch.strided]
                if not outs or not ins:
                    gradients.append(None)
                    continue
                torch.manual_seed(1)
                weights = [torch.randn(o.shape, dtype=o.dtype).to(o.device) for o in outs]
                gradients.append(torch.autograd.grad(outs, ins, weights, allow_unused=True))
            except Exception as e:
                gradients.append(e)
        cpu_gradients, our_gradients = gradients
        if cpu_gradients is None or isinstance(cpu_gradients, Exception):
            continue
        outcome.backward += 1
        if our_gradients is None or isinstance(our_gradients, Exception):
            fail("backward", f"{type(our_gradients).__name__}: {our_gradients}")
            continue
        wrong = None
        for a, b in zip(cpu_gradients, our_gradients):
            if (a is None) != (b is None):
                wrong = "a gradient is missing on one side"
            elif a is not None:
                wrong = wrong or difference(a, b)
        if wrong:
            fail("backward", wrong)
        else:
            outcome.backward_equal += 1
    moved_bytes = _device.bytes_moved() - moved_before
    if moved_bytes:
        reasons["copy"] = f"copy: {moved_bytes} bytes of results were copied into the device's memory"
    outcome.reasons = list(reasons.values())
    return outcome


def child(names: list[str], database, path: str) -> None:
    """Runs the ops one after the other, and writes the begin and the outcome of each."""
    import torch

    import kineto_spyre

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kineto_spyre.emulator.enable(devices=1)
    with open(path, "a") as out:
        for name in names:
            print(json.dumps({"begin": name}), file=out, flush=True)
            try:
                outcome = run_op(name, database[name], "spyre")
            except Exception:
                outcome = Outcome(name, forward=1, reasons=["sweep: " + traceback.format_exc(limit=2)])
            print(json.dumps({"outcome": dataclasses.asdict(outcome)}), file=out, flush=True)


def sweep(names: list[str] | None = None, progress=None) -> list[Outcome]:
    """Runs the ops (all of them for None) in forked children. This process must not use the device."""
    database = ops()
    unknown = [n for n in names or [] if n not in database]
    if unknown:
        raise ValueError(f"not in the database, or without float32: {unknown}")
    todo = list(database) if names is None else list(names)
    outcomes: list[Outcome] = []
    while todo:
        descriptor, path = tempfile.mkstemp(suffix=".jsonl")
        os.close(descriptor)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(todo[:60], database, path)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        begun = None
        done = []
        with open(path) as lines:
            for line in lines:
                entry = json.loads(line)
                if "begin" in entry:
                    begun = entry["begin"]
                else:
                    done.append(Outcome(**entry["outcome"]))
                    begun = None
        os.unlink(path)
        if begun is not None:
            done.append(Outcome(begun, forward=1, crashed=True, reasons=[f"the process ended with status {status}"]))
        if not done:
            raise RuntimeError(f"the sweep's child ended with status {status} before its first op")
        outcomes += done
        finished = {o.op for o in done}
        todo = [n for n in todo if n not in finished]
        if progress is not None:
            progress(len(outcomes), len(outcomes) + len(todo))
    return outcomes


def summary(outcomes: list[Outcome]) -> str:
    forward = sum(o.forward for o in outcomes)
    backward = sum(o.backward for o in outcomes)
    forward_equal = sum(o.forward_equal for o in outcomes)
    backward_equal = sum(o.backward_equal for o in outcomes)

    def share(part: int, whole: int) -> str:
        return f"{part} of {whole} ({100 * part / max(whole, 1):.2f} %)"

    return (
        f"{len(outcomes)} ops, {sum(o.crashed for o in outcomes)} crashed; samples equal to the CPU's: "
        f"forward {share(forward_equal, forward)}, backward {share(backward_equal, backward)}"
    )


def report(outcomes: list[Outcome]) -> str:
    import torch

    lines = [
        "# Ops whose samples are not all equal to the CPU's",
        "",
        f"Written by opinfo_sweep.py with PyTorch {torch.__version__.split('+')[0]}, float32 samples.",
        "",
        summary(outcomes) + ".",
        "",
        "| op | forward | backward | reason |",
        "|---|---|---|---|",
    ]
    for o in sorted((o for o in outcomes if not o.equal or o.op in WHY), key=lambda o: o.op):
        found = "; ".join(r.split(". ")[0] for r in o.reasons)
        why = ": ".join(s for s in (WHY.get(o.op, ""), found) if s).replace("|", "\\|").replace("\n", " ")
        lines.append(
            f"| {o.op} | {o.forward_equal}/{o.forward} | {o.backward_equal}/{o.backward} | "
            f"{'crashed: ' if o.crashed else ''}{why} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="*", help="names as OpInfo has them; default: all")
    parser.add_argument("--report", help="where to write the list of ops that are not equal")
    options = parser.parse_args()
    results = sweep(options.ops, progress=lambda n, of: print(f"\r{n} of {of} ops", end="", file=sys.stderr))
    print(file=sys.stderr)
    text = report(results)
    if options.report:
        with open(options.report, "w") as file:
            file.write(text)
    else:
        print(text)
    print(summary(results))
    sys.exit(any(o.crashed for o in results))
