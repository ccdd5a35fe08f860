"""Gradients, autocast's casts and checkpointing: as on the CPU."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn


def both(f, *tensors):
    """f's gradients for the tensors, on the CPU and on the device."""
    out = []
    for device in ("cpu", "spyre"):
        leaves = [t.detach().to(device).requires_grad_() for t in tensors]
        torch.manual_seed(2)
        result = f(*leaves)
        out.append([result.detach().cpu(), *(g.cpu() for g in torch.autograd.grad(result.sum(), leaves))])
    return out


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: x @ w,
        lambda x, w: torch.softmax(x @ w, -1).log(),
        lambda x, w: nn.functional.layer_norm(x @ w, (8,)),
        lambda x, w: nn.functional.gelu(x) * w.sum(),
        lambda x, w: torch.cat([x, w]).cumsum(0).prod(1),
        lambda x, w: (x[:, None] * w[None]).std(-1),
        lambda x, w: torch.linalg.inv(x @ x.T + torch.eye(8, device=x.device)) + w,
        lambda x, w: nn.functional.scaled_dot_product_attention(x[None, None], w[None, None], x[None, None]),
        lambda x, w: nn.functional.embedding(torch.tensor([0, 2, 2], device=x.device), x) @ w,
        lambda x, w: nn.functional.cross_entropy(x @ w, torch.arange(8, device=x.device)),
        lambda x, w: torch.fft.rfft(x).abs() * w[:, :5],
        lambda x, w: nn.functional.conv2d(x[None, None], w[None, None, :3, :3], padding=1),
        lambda x, w: nn.functional.conv_transpose2d(x[None, None], w[None, None, :2, :2], stride=2),
        lambda x, w: nn.functional.max_pool2d(x[None], 2) * w.mean(),
        lambda x, w: torch.einsum("ij,kj->ik", x, w).sort().values,
    ],
)
def test_gradients_equal_the_cpus(f) -> None:
    cpu, device = both(f, torch.randn(8, 8), torch.randn(8, 8))
    assert all(torch.equal(a, b) for a, b in zip(cpu, device, strict=True))


def test_second_derivatives_hooks_and_accumulation() -> None:
    results = []
    for device in ("cpu", "spyre"):
        x = torch.linspace(-1, 1, 5, device=device, requires_grad=True)
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        seen = []
        y = x * 2
        y.register_hook(lambda grad, seen=seen: seen.append(grad.cpu()))
        y.sum().backward()
        y = x * 3
        y.sum().backward()
        results.append([h.cpu(), seen[0], x.grad.cpu()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_gradcheck() -> None:
    x = torch.randn(3, 3, dtype=torch.float64, device="spyre", requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.tanh(t @ t), (x,))


def test_forward_mode() -> None:
    import torch.autograd.forward_ad as fwd

    out = []
    for device in ("cpu", "spyre"):
        with fwd.dual_level():
            x = fwd.make_dual(torch.arange(3.0, device=device), torch.ones(3, device=device))
            out.append(fwd.unpack_dual(x.exp() * 2).tangent.cpu())
    assert torch.equal(*out)


def test_custom_functions() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    cpu, device = both(Square.apply, torch.randn(4))
    assert all(torch.equal(a, b) for a, b in zip(cpu, device, strict=True))


def test_writing_over_what_the_graph_needs_is_noticed() -> None:
    x = torch.ones(3, device="spyre", requires_grad=True)
    y = x.exp()
    y.add_(1)  # exp's gradient is made of its result
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.GELU()).to(device)
        x = torch.randn(4, 6).to(device).requires_grad_()
        torch.manual_seed(1)
        checkpoint(block, x, use_reentrant=reentrant).square().sum().backward()
        results.append([x.grad.cpu(), *(p.grad.cpu() for p in block.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_gradient_scaler() -> None:
    weights = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = nn.Linear(4, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=128.0)
        for i in range(3):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.float16):
                loss = model(torch.full((2, 4), 1.0 + i, device=device)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        weights.append([p.detach().cpu() for p in model.parameters()])
        assert scaler.get_scale() == 128.0
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


# formulas that ask for the CPU


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 64, 8, 8), (2, 8, 3, 4, 5)])
def test_group_norms_gradients_keep_channels_last(shape: tuple[int, ...], affine: bool) -> None:
    channels_last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        leaves = [torch.randn(shape).to(memory_format=channels_last).to(device).requires_grad_()]
        if affine:
            leaves += [torch.randn(shape[1]).to(device).requires_grad_() for _ in range(2)]
        y = nn.functional.group_norm(leaves[0], 8, *leaves[1:])
        gradients = torch.autograd.grad(y, leaves, torch.randn(shape).to(device))
        assert gradients[0].is_contiguous(memory_format=channels_last)
        results.append([y.detach().cpu(), *(g.cpu() for g in gradients)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_group_norm_can_be_differentiated_again_forward_and_by_functional_transforms() -> None:
    def norm(x, w, b):
        return nn.functional.group_norm(x, 4, w, b).square().sum()

    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        x = torch.randn(2, 8, 3, 3, dtype=torch.float64).to(memory_format=torch.channels_last).to(device)
        w, b = (torch.randn(8, dtype=torch.float64).to(device).requires_grad_() for _ in range(2))
        x.requires_grad_()
        first = torch.autograd.grad(norm(x, w, b), (x, w, b), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, w))
        plain = x.detach().contiguous()  # PyTorch's forward mode takes no other layout, on the CPU either
        _, forward = torch.func.jvp(
            lambda t, w=w, b=b: norm(t, w.detach(), b.detach()), (plain,), (torch.ones_like(plain),)
        )
        transformed = torch.func.grad(norm)(x.detach(), w.detach(), b.detach())
        results.append([t.detach().cpu() for t in (*first, forward, transformed, *second)])
    assert all(torch.equal(a, b) for a, b in zip(*(r[:5] for r in results), strict=True))
    for a, b in zip(*(r[5:] for r in results), strict=True):  # the same terms, added in another order
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


class UNet(nn.Module):
    """Down, across and up, with group norm and SiLU throughout, as diffusion models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.ModuleList([self.block(16, 16), self.block(16, 32), self.block(32, 32)])
        self.up = nn.ModuleList([self.block(64, 32), self.block(48, 16)])
        self.outward = nn.Conv2d(16, 3, 3, padding=1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs)
        )

    def forward(self, x):
        x = a = self.down[0](self.inward(x))
        x = b = self.down[1](nn.functional.avg_pool2d(x, 2))
        x = self.down[2](nn.functional.avg_pool2d(x, 2))
        x = self.up[0](torch.cat([nn.functional.interpolate(x, scale_factor=2), b], 1))
        x = self.up[1](torch.cat([nn.functional.interpolate(x, scale_factor=2), a], 1))
        return self.outward(x)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_unets_gradients_equal_the_cpus(memory_format: torch.memory_format) -> None:
    results = []
    for device in ("cpu", "spyre"):
        torch.manual_seed(0)
        model = UNet().to(device, memory_format=memory_format)
        x = torch.randn(2, 3, 16, 16).to(memory_format=memory_format).to(device)
        model(x).square().mean().backward()
        results.append([p.grad.cpu() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_backward_uses_as_many_threads_as_its_caller(run_python) -> None:
    """Also after a DataLoader's thread has set another number for the process, and when the caller changes its own."""
    done = run_python(
        """
        import torch, kineto_spyre
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        kineto_spyre.emulator.enable(devices=1)

        def gradients(device):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 8)).to(device)
            model(torch.randn(512, 64).to(device)).square().sum().backward()
            return [p.grad.cpu() for p in model.parameters()]

        def seen(device):
            counts = []
            x = torch.ones(3, device=device, requires_grad=True)
            y = x * 2
            y.register_hook(lambda g: counts.append((g * 1, torch.get_num_threads())[1]))
            (y * 2).sum().backward()
            return counts

        torch.set_num_threads(4)
        for batch in DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4, num_workers=1, pin_memory=True):
            pass
        for threads in (4, 2, 3, 1, 4):
            torch.set_num_threads(threads)
            equal = all(torch.equal(a, b) for a, b in zip(gradients("cpu"), gradients("spyre"), strict=True))
            print(threads, seen("cpu") == seen("spyre") == [threads], equal)
        """
    )
    assert done.stdout.split("\n")[:-1] == [f"{n} True True" for n in (4, 2, 3, 1, 4)]


# autocast


def test_autocast_is_off_by_default_and_float16() -> None:
    assert torch.get_autocast_dtype("spyre") == torch.float16 and not torch.is_autocast_enabled("spyre")
    x = torch.randn(3, 3, device="spyre")
    with torch.autocast("spyre"):
        assert torch.is_autocast_enabled("spyre")
        assert (x @ x).dtype == torch.float16
        with torch.autocast("spyre", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
    assert torch.spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_autocast_to_another_dtype_warns_and_stays_off() -> None:
    with pytest.warns(UserWarning, match="In spyre autocast, but the target dtype is not supported"):
        with torch.autocast("spyre", dtype=torch.float32):
            assert not torch.is_autocast_enabled("spyre")


def test_autocast_casts_the_ops_that_the_cpu_casts() -> None:
    """PyTorch's own lists of what CPU autocast does to which op."""
    lists = pytest.importorskip("torch.testing._internal.autocast_test_lists")
    cpu = lists.AutocastCPUTestLists(torch.device("cpu"))
    tried = 0
    for name in ("torch_16", "torch_fp32", "nn_16", "nn_fp32", "torch_need_autocast_promote"):
        for entry in getattr(cpu, name, []):
            op, arguments, *rest = entry
            kwargs = rest[0] if rest and isinstance(rest[0], dict) else {}
            module = torch._C._nn if name.startswith("nn") and hasattr(torch._C._nn, op) else torch
            function = getattr(module, op, None)
            if function is None:
                continue
            dtypes = []
            for device in ("cpu", "spyre"):
                move = torch.utils._pytree.tree_map(
                    lambda t, d=device: t.to(d) if isinstance(t, torch.Tensor) else t, (arguments, kwargs)
                )
                with torch.autocast(device, dtype=torch.bfloat16), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        result = function(*move[0], **move[1])
                    except RuntimeError as e:
                        dtypes.append(type(e))
                        continue
                leaves = torch.utils._pytree.tree_leaves(result)
                dtypes.append([t.dtype for t in leaves if isinstance(t, torch.Tensor)])
            assert dtypes[0] == dtypes[1], op
            tried += 1
    assert tried > 20


def test_a_cast_weight_is_cached_within_a_region() -> None:
    import kineto_spyre

    w = torch.randn(4, 4, device="spyre", requires_grad=True)
    x = torch.randn(4, 4, device="spyre", dtype=torch.float16)
    with kineto_spyre.profile_spyre() as prof, torch.autocast("spyre"):
        x @ w
        x @ w
    assert {r.key: r.count for r in prof.key_averages()}["aten::_to_copy"] == 1
