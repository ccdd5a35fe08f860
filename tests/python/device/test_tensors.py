"""Making tensors, views, dtypes, writing in place and into out=: as on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def same(device: torch.Tensor, cpu: torch.Tensor) -> bool:
    assert device.device.type == "spyre" and device.dtype == cpu.dtype
    a, b = device.cpu(), cpu
    if a.dtype.itemsize == 1 and a.is_floating_point():
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    return torch.equal(a, b)


# factories


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(3, 4, device=d),
        lambda d: torch.ones(3, 4, device=d),
        lambda d: torch.full((2, 3), 2.5, device=d),
        lambda d: torch.arange(7, device=d),
        lambda d: torch.arange(0.5, 3, 0.25, device=d),
        lambda d: torch.linspace(0, 1, 9, device=d),
        lambda d: torch.logspace(0, 2, 5, device=d),
        lambda d: torch.eye(4, 5, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.tensor(3.5, device=d),
        lambda d: torch.tensor((), device=d),
        lambda d: torch.scalar_tensor(2, device=d),
        lambda d: torch.tril_indices(4, 4, device=d),
        lambda d: torch.triu_indices(3, 5, 1, device=d),
        lambda d: torch.randperm(9, device=d),
        lambda d: torch.randint(0, 9, (5,), device=d),
        lambda d: torch.rand(6, device=d),
        lambda d: torch.randn(4, 4, device=d),
        lambda d: torch.hann_window(6, device=d),
        lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
        lambda d: torch.zeros_like(torch.empty(3, device=d)),
        lambda d: torch.empty(2, device=d).new_full((3,), 7.0),
        lambda d: torch.vander(torch.arange(3.0, device=d)),
    ],
)
def test_a_factory_gives_what_it_gives_on_the_cpu(make) -> None:
    torch.manual_seed(0)
    expected = make("cpu")
    torch.manual_seed(0)
    assert same(make("spyre"), expected)


def test_empty_has_the_layout_that_was_asked_for() -> None:
    x = torch.empty(2, 3, 4, 5, device="spyre", memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    y = torch.empty_strided((3, 4), (1, 3), device="spyre")
    assert (y.shape, y.stride()) == ((3, 4), (1, 3))
    assert torch.empty(0, 3, device="spyre").shape == (0, 3)


def test_no_index_means_the_current_device() -> None:
    assert torch.empty(1, device="spyre").device == torch.device("spyre", 0)
    torch.spyre.set_device(1)
    assert torch.empty(1, device="spyre").device == torch.device("spyre", 1)
    assert torch.tril_indices(2, 2, device="spyre").device.index == 1


def test_the_default_device_may_be_ours() -> None:
    with torch.device("spyre"):
        assert torch.ones(2).device.type == "spyre"
        assert torch.nn.Linear(2, 2).weight.device.type == "spyre"
    torch.set_default_device("spyre:1")
    assert torch.randn(3).device == torch.device("spyre:1")


def test_fake_tensors_know_the_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        z = torch.empty(3, 3, device="spyre") + torch.empty(3, 3, device="spyre:0")
        assert z.device == torch.device("spyre:0") and z.shape == (3, 3)


def test_pinned_memory_can_not_be_asked_of_the_device() -> None:
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device="spyre", pin_memory=True)


# dtypes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_goes_to_the_device_and_back(dtype: torch.dtype) -> None:
    x = (torch.arange(12) % 2).reshape(3, 4).to(dtype)
    assert same(x.to("spyre"), x)
    assert same(x.to("spyre").clone(), x)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
def test_a_conversion_rounds_as_the_cpus(dtype: torch.dtype, to: torch.dtype) -> None:
    x = (torch.randn(64) * 3).to(dtype)
    assert same(x.to("spyre").to(to), x.to(to))
    assert same(x.to("spyre", to), x.to(to))


def test_types_have_the_devices_name() -> None:
    assert torch.ones(1, device="spyre").type() == "torch.spyre.FloatTensor"
    assert torch.ones(1, device="spyre", dtype=torch.int64).type() == "torch.spyre.LongTensor"


def test_quantised_tensors_equal_the_cpus() -> None:
    x = torch.randn(3, 4)
    q, d = (torch.quantize_per_tensor(t, 0.1, 10, torch.qint8) for t in (x, x.to("spyre")))
    assert d.device.type == "spyre" and torch.equal(d.int_repr().cpu(), q.int_repr())
    assert torch.equal(d.dequantize().cpu(), q.dequantize())
    assert torch.equal(d.cpu().int_repr(), q.int_repr())


# views


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(6, 4),
        lambda x: x.view(-1),
        lambda x: x.view(torch.int32),
        lambda x: x.reshape(4, 6),
        lambda x: x[1],
        lambda x: x[:, 1:, ::2],
        lambda x: x[..., None],
        lambda x: x.transpose(0, 2),
        lambda x: x.permute(2, 0, 1),
        lambda x: x[:1].expand(5, 3, 4),
        lambda x: x.as_strided((2, 2), (4, 1), 1),
        lambda x: x.unfold(2, 2, 1),
        lambda x: x.diagonal(0, 1, 2),
        lambda x: x.unsqueeze(0).squeeze(0),
        lambda x: x.flatten(1),
        lambda x: x.detach(),
        lambda x: x.view_as(x),
        lambda x: x.narrow(1, 1, 2),
        lambda x: x.movedim(0, 1),
        lambda x: x.chunk(2, 2)[1],
        lambda x: x.split(1)[1],
        lambda x: x.unbind(1)[2],
        lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)),
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(2, 3, 2, 2))),
    ],
)
def test_a_view_shares_memory_and_lies_as_on_the_cpu(view) -> None:
    cpu = torch.randn(2, 3, 4)
    device = cpu.to("spyre")
    v, w = view(cpu), view(device)
    assert w.untyped_storage().data_ptr() == device.untyped_storage().data_ptr()
    assert (w.shape, w.stride(), w.storage_offset()) == (v.shape, v.stride(), v.storage_offset())
    assert same(w, v)
    cpu.add_(1)
    device.add_(1)
    assert same(w, v)


def test_writing_to_a_view_writes_to_its_base() -> None:
    x = torch.zeros(4, 4, device="spyre")
    x[1:3, ::2] = 5
    x.t()[0].fill_(7)
    x.diagonal().mul_(2)
    y = torch.zeros(4, 4)
    y[1:3, ::2] = 5
    y.t()[0].fill_(7)
    y.diagonal().mul_(2)
    assert same(x, y)


def test_lazy_conjugates_and_negatives_resolve_as_on_the_cpu() -> None:
    x = torch.randn(3, dtype=torch.complex64)
    d = x.to("spyre")
    assert d.conj().is_conj() and same(d.conj() * 2, x.conj() * 2)
    assert d.conj().imag.is_neg() and same(d.conj().imag + 1, x.conj().imag + 1)
    assert same(d.conj().clone(), x.conj().clone())
    assert same(d.conj().resolve_conj(), x.conj().resolve_conj())
    assert same(d.mH if d.dim() > 1 else d.conj(), x.conj())


# in place and out=


def test_in_place_ops_return_what_they_were_given() -> None:
    x = torch.ones(3, device="spyre")
    address, version = x.data_ptr(), x._version
    assert x.add_(1) is x and x.data_ptr() == address and x._version > version
    assert torch.relu_(x) is x
    assert x.copy_(torch.zeros(3)) is x
    assert x.zero_() is x


def test_out_is_filled_resized_and_returned() -> None:
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    out = torch.empty(2, 3, device="spyre")
    address = out.data_ptr()
    assert torch.add(a.to("spyre"), b.to("spyre"), out=out) is out
    assert out.data_ptr() == address and same(out, a + b)
    grown = torch.empty(0, device="spyre")
    assert torch.add(a.to("spyre"), b.to("spyre"), out=grown) is grown
    assert same(grown, a + b)
    part = torch.zeros(2, 6, device="spyre")
    torch.abs(a.to("spyre"), out=part[:, ::2])
    expected = torch.zeros(2, 6)
    torch.abs(a, out=expected[:, ::2])
    assert same(part, expected)
    counted = torch.empty(0, device="spyre", dtype=torch.int64)
    assert same(torch.arange(5, out=counted), torch.arange(5))
    values, indices = torch.empty(0, device="spyre"), torch.empty(0, device="spyre", dtype=torch.int64)
    torch.max(a.to("spyre"), 1, out=(values, indices))
    assert same(values, a.max(1).values) and same(indices, a.max(1).indices)


def test_writing_over_what_is_read_is_refused_as_on_the_cpu() -> None:
    for device in ("cpu", "spyre"):
        x = torch.arange(8.0, device=device)
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.add(x[:-1], 1, out=x[1:])


def test_set_and_resize_reseat_a_tensor() -> None:
    a = torch.randn(3, 4, device="spyre")
    b = torch.empty(0, device="spyre")
    b.set_(a)
    assert b.data_ptr() == a.data_ptr() and same(b, a.cpu())
    assert b.is_set_to(a) and not b.is_set_to(a[1:])
    c = torch.empty(0, device="spyre")
    c.set_(a.untyped_storage(), 4, (2, 4), (4, 1))
    assert same(c, a.cpu()[1:])
    d = torch.arange(4.0, device="spyre")
    d.resize_(2)
    assert same(d, torch.arange(2.0)) and d.untyped_storage().nbytes() == 16
    d.resize_(3, 3)
    assert d.untyped_storage().nbytes() == 36 and same(d.view(-1)[:4], torch.arange(4.0))
    e = torch.ones(5, device="spyre")
    e.untyped_storage().resize_(0)
    assert e.untyped_storage().nbytes() == 0
    e.untyped_storage().resize_(20)
    assert e.fill_(2).sum().item() == 10


def test_data_may_be_replaced_by_a_tensor_of_another_device() -> None:
    cpu, device = torch.randn(2, 2), torch.randn(2, 2, device="spyre")
    expected = device.cpu()
    cpu.data = device
    assert cpu.device.type == "spyre" and same(cpu, expected)
    host = torch.randn(2, 2)
    device.data = host
    assert device.device.type == "cpu" and torch.equal(device, host)


def test_a_module_keeps_its_parameters_when_it_moves() -> None:
    """So an optimizer that was made before goes on with them."""
    model = torch.nn.Linear(2, 2)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("spyre")
    assert model.weight is weight and weight.is_spyre
    before = weight.detach().clone()
    model(torch.ones(1, 2, device="spyre")).sum().backward()
    optimizer.step()
    assert not torch.equal(weight, before)


def test_deep_copies_are_on_the_device() -> None:
    x = torch.randn(3, device="spyre")
    y = copy.deepcopy(x)
    assert y.data_ptr() != x.data_ptr() and same(y, x.cpu())
    model = copy.deepcopy(torch.nn.Linear(2, 3).spyre())
    assert model.weight.is_spyre


# what else users call


def test_indexing_equals_the_cpus() -> None:
    x, i = torch.randn(5, 4), torch.tensor([0, 2, 2])
    d = x.to("spyre")
    assert same(d[i.to("spyre")], x[i])
    assert same(d[i], x[i])  # an index on the CPU, as CUDA takes it
    assert same(d[d > 0], x[x > 0])
    y, e = x.clone(), d.clone()
    y[i, 1] = 9
    e[i.to("spyre"), 1] = 9
    y.index_add_(0, i, torch.ones(3, 4))
    e.index_add_(0, i.to("spyre"), torch.ones(3, 4, device="spyre"))
    y[x > 0] = 0
    e[d > 0] = 0
    assert same(e, y)


def test_reading_values_back() -> None:
    x = torch.tensor([[1.5, -2.0]], device="spyre")
    assert x[0, 0].item() == 1.5 and x.tolist() == [[1.5, -2.0]]
    assert bool((x > 0).any()) and int(x[0, 1]) == -2 and float(x.sum()) == -0.5
    assert "device='spyre:0'" in repr(x)
    assert x.cpu().numpy().tolist() == [[1.5, -2.0]]
    with pytest.raises(TypeError, match="can't convert spyre:0 device type tensor to numpy"):
        x.numpy()
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1)
    assert torch.allclose(x, x + 1e-9)


def test_methods_named_after_the_device() -> None:
    x = torch.ones(2)
    assert not x.is_spyre and x.spyre().is_spyre
    assert x.spyre(1).device.index == 1 and x.spyre(torch.device("spyre:1")).device.index == 1
    assert torch.nn.Linear(2, 2).spyre().weight.is_spyre
    packed = torch.nn.utils.rnn.PackedSequence(torch.rand(5, 3), torch.ones(5, dtype=torch.int64))
    assert packed.spyre().is_spyre and packed.spyre().data.is_spyre
    assert x.untyped_storage().spyre().is_spyre and not x.storage().is_spyre


def test_scalars_of_the_cpu_take_part_and_larger_tensors_do_not() -> None:
    x = torch.ones(3, device="spyre")
    assert same(x + torch.tensor(2.0), torch.full((3,), 3.0))
    assert same(x * 2 + 1, torch.full((3,), 3.0))
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*spyre:0 and cpu"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*cpu"):
        torch.mm(torch.ones(2, 2), torch.ones(2, 2, device="spyre"))
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*spyre:0 and spyre:1"):
        x + torch.ones(3, device="spyre:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.cat([x, torch.ones(3)])
    assert same(x + 1, torch.full((3,), 2.0))  # and goes on


def test_errors_are_the_cpus() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.ones(2, 3, device="spyre") @ torch.ones(2, 3, device="spyre")
    with pytest.raises(IndexError):
        torch.ones(2, device="spyre")[5]
    with pytest.raises(RuntimeError, match="There is no device spyre:9; this process has 2"):
        torch.ones(2, device="spyre:9")


def test_an_op_without_a_kernel_says_its_name() -> None:
    with pytest.raises(NotImplementedError, match="aten::to_mkldnn"):
        torch.ones(2, 2, device="spyre").to_mkldnn()
    library = torch.library.Library("spyre_tests", "DEF")
    library.define("nowhere(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="spyre has no kernel for spyre_tests::nowhere"):
        torch.ops.spyre_tests.nowhere(torch.ones(1, device="spyre"))
    library.define("somewhere(Tensor x) -> Tensor")
    library.impl("somewhere", lambda x: x * 2, "CPU")  # registered after the device was
    assert torch.ops.spyre_tests.somewhere(torch.ones(1, device="spyre")).item() == 2
    library._destroy()


def test_inference_mode() -> None:
    x = torch.randn(3, 3)
    with torch.inference_mode():
        d = x.to("spyre")
        y = torch.relu(d @ d).add_(1)
        assert y.is_inference() and same(y, torch.relu(x @ x).add_(1))
        v = y[1:]
        v.mul_(2)
        assert y[1:].cpu().equal(v.cpu())


def test_vmap_and_functional_transforms() -> None:
    x = torch.randn(4, 3)
    f = torch.func.vmap(lambda t: torch.softmax(t * t, 0))
    assert same(f(x.to("spyre")), f(x))
    g = torch.func.grad(lambda t: (t.sin() ** 2).sum())
    assert same(g(x.to("spyre")), g(x))
    j = torch.func.jacrev(lambda t: t.exp())
    assert same(j(x[0].to("spyre")), j(x[0]))
    h = torch.func.jacfwd(lambda t: t.exp() * 2)
    assert same(h(x[0].to("spyre")), h(x[0]))
