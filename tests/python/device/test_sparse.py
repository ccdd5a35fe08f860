"""Sparse layouts: COO and the compressed ones."""

from __future__ import annotations

import io

import pytest
import torch

I = torch.tensor([[0, 1, 1], [2, 0, 2]])  # noqa: E741
V = torch.tensor([3.0, 4.0, 5.0])


def coo(device: str) -> torch.Tensor:
    return torch.sparse_coo_tensor(I.to(device), V.to(device), (2, 3))


def some(device: str) -> torch.Tensor:
    x = torch.arange(16.0).view(4, 4)
    return torch.where(x % 3 == 0, x, 0).to(device)


def embedding(device: str, kind) -> torch.Tensor:
    torch.manual_seed(0)
    layer = torch.nn.Embedding(10, 3, sparse=True).to(device)
    optimizer = kind(layer.parameters(), lr=0.1)
    layer(torch.tensor([1, 2, 2]).to(device)).sum().backward()
    assert layer.weight.grad.is_sparse
    optimizer.step()
    return layer.weight.detach()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "f",
    [
        coo,
        lambda d: torch.sparse_coo_tensor(I, V, (2, 3), device=d),
        lambda d: coo("cpu").to(d),
        lambda d: coo(d).coalesce(),
        lambda d: coo(d).coalesce().indices(),
        lambda d: coo(d).coalesce().values(),
        lambda d: coo(d) + coo(d),
        lambda d: coo(d).add_(coo(d)),
        lambda d: coo(d) * 2,
        lambda d: coo(d).t(),
        lambda d: coo(d).clone().zero_(),
        lambda d: torch.sparse.sum(coo(d)),
        lambda d: some(d).to_sparse(),
        lambda d: some(d).to_sparse().to_dense(),
        lambda d: torch.sparse.mm(some(d).to_sparse(), some(d)),
        lambda d: some(d) + some(d).to_sparse(),
        lambda d: torch.sparse.softmax(some(d).to_sparse(), 1),
        lambda d: some(d).to_sparse_csr(),
        lambda d: some(d).to_sparse_csr() @ some(d),
        lambda d: some(d).to_sparse_csr().values(),
        lambda d: some(d).to_sparse_csr().to_sparse(),
        lambda d: some("cpu").to_sparse_csr().to(d),
        lambda d: some(d).to_sparse_bsr((2, 2)),
        lambda d: some(d).to_sparse_csc(),
        lambda d: embedding(d, torch.optim.SparseAdam),
        lambda d: embedding(d, torch.optim.SGD),
    ],
)
def test_sparse_tensors_equal_the_cpus(f) -> None:
    expected, found = f("cpu"), f("spyre")
    assert found.device.type == "spyre" and found.layout == expected.layout
    assert torch.equal(found.cpu().to_dense(), expected.to_dense())


def test_a_sparse_tensor_shares_its_values_and_is_saved() -> None:
    x = coo("spyre")
    assert x._nnz() == 3 and not x.is_coalesced() and x.coalesce().is_coalesced()
    y = x.coalesce()
    y.values().mul_(2)
    assert y.to_dense().sum().item() == 24
    assert "device='spyre:0'" in repr(y)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.equal(torch.load(file).cpu().to_dense(), coo("cpu").to_dense())
