"""Training by libraries: transformers' Trainer, PEFT, accelerate's dispatch and offload, Lightning."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch

pytest.importorskip("transformers")

import tiny


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


TRAINER = """
import os, sys, tempfile, torch
from kineto_spyre import emulator
torch.set_num_threads(1)
first = sys.argv[1] == "first"
if first:
    emulator.enable()
sys.path.insert(0, sys.argv[2])
import tiny
from transformers import Trainer, TrainingArguments
if not first:
    emulator.enable()

def train(**arguments):
    torch.manual_seed(0)
    model = tiny.causal("Llama")
    data = [{"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i} for i in range(3, 19)]
    trainer = Trainer(model=model, train_dataset=data, args=TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, **arguments))
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return str(next(model.parameters()).device), (losses, [p.tolist() for p in model.cpu().parameters()])

on_cpu = train(use_cpu=True)
assert on_cpu[0] == "cpu"
for arguments in ({}, {"gradient_checkpointing": True}) if first else ({},):
    assert train(**arguments) == ("spyre:0", on_cpu[1]), arguments
assert "ACCELERATE_TORCH_DEVICE" not in os.environ
if first:
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    assert train() == on_cpu, "the user's choice"
"""


@pytest.mark.parametrize("order", ["first", "later"])
def test_the_trainer_with_default_arguments(run_python, order) -> None:
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate (pip install accelerate)")
    run_python(
        TRAINER,
        *(order, os.path.dirname(tiny.__file__)),
        env={"ACCELERATE_TORCH_DEVICE": None, "HF_HUB_OFFLINE": "1"},
    )


def test_peft_trains_adapters(on_both) -> None:
    peft = pytest.importorskip("peft", reason="this program needs PEFT (pip install peft)")

    def program(device):
        model = peft.get_peft_model(
            tiny.causal("Granite"), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
        ).to(device)
        model.train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
        ids = torch.arange(3, 19, device=device).view(2, 8)
        losses = []
        for step in range(3):
            torch.manual_seed(step)
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return losses, [p for p in model.parameters() if p.requires_grad]

    on_both(program)


@pytest.mark.parametrize("how", ["dispatched", "offloaded", "offloaded to disk"])
def test_accelerate_spreads_a_model(on_both, tmp_path, how) -> None:
    accelerate = pytest.importorskip("accelerate", reason="this program needs accelerate (pip install accelerate)")

    def program(device):
        model = tiny.causal("Llama")
        if device == "spyre":
            if how == "dispatched":
                places = {"model.embed_tokens": 0, "model.layers.0": 0, "model.rotary_emb": 0, "model.layers.1": 1}
                places = {name: f"spyre:{index}" for name, index in places.items()}
                model = accelerate.dispatch_model(model, places | {"model.norm": "spyre:1", "lm_head": "cpu"})
            elif how == "offloaded":
                model = accelerate.cpu_offload(model, execution_device=torch.device("spyre:0"))
            else:
                accelerate.disk_offload(model, str(tmp_path), execution_device=torch.device("spyre:0"))
        ids = torch.arange(3, 19, device=device).view(2, 8)
        with torch.no_grad():
            return model(input_ids=ids).logits

    on_both(program)


def test_lightning_trains_on_the_device_by_its_name(run_python) -> None:
    pytest.importorskip("lightning", reason="this program needs Lightning (pip install lightning)")
    program = """
import sys, torch, logging, warnings
warnings.simplefilter("ignore")
import kineto_spyre
kineto_spyre.emulator.enable(devices=2)
assert "lightning" not in sys.modules
import lightning
import kineto_spyre.emulator.lightning
from lightning.pytorch.demos.boring_classes import BoringModel
torch.set_num_threads(1)
def fit(**how):
    lightning.seed_everything(0)
    model = BoringModel()
    trainer = lightning.Trainer(max_steps=3, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **how)
    trainer.fit(model)
    return trainer, [p.detach().cpu() for p in model.parameters()]
_, expected = fit(accelerator="cpu", devices=1)
spyre = kineto_spyre.emulator.lightning
for index, how in (
    (0, {"accelerator": "spyre", "strategy": "single_spyre", "devices": 1}),
    (1, {"accelerator": spyre.SpyreAccelerator(), "strategy": spyre.SingleSpyreStrategy("spyre:1"), "devices": [1]}),
):
    trainer, got = fit(**how)
    assert trainer.strategy.root_device == torch.device("spyre", index)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
for wrong, says in (({"devices": 3}, "devices=3: expected a count or indices of the 2 emulated devices"),
                    ({"devices": "0,0"}, "devices='0,0'"), ({"devices": 1}, "strategy='single_spyre'")):
    try:
        fit(accelerator="spyre", **wrong)
    except ValueError as error:
        assert says in str(error), error
    else:
        raise AssertionError(f"{wrong} was not refused")
"""
    run_python(program)


def test_lightning_trains_on_two_devices(tmp_path) -> None:
    pytest.importorskip("lightning", reason="this program needs Lightning (pip install lightning)")
    script = tmp_path / "program.py"
    script.write_text("""
import kineto_spyre
kineto_spyre.emulator.enable(devices=2)
import lightning
import torch
import kineto_spyre.emulator.lightning
from lightning.pytorch.demos.boring_classes import BoringModel
lightning.seed_everything(0)
model = BoringModel()
trainer = lightning.Trainer(accelerator="spyre", strategy="ddp_spyre", devices=2, max_steps=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(model)
assert trainer.strategy.root_device == torch.device("spyre", trainer.global_rank)
gathered = trainer.strategy.all_gather(model.layer.weight.detach().to(trainer.strategy.root_device))
assert torch.equal(gathered[0], gathered[1]), "the ranks trained together"
print("RANK", trainer.global_rank, "of", trainer.world_size)
""")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KINETO_SPYRE_")}
    done = subprocess.run(
        [sys.executable, "-P", script],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "RANK 0 of 2" in done.stdout and "RANK 1 of 2" in done.stdout


@pytest.mark.skipif("lightning" in sys.modules, reason="Lightning is imported already")
def test_without_lightning_a_sentence_says_what_to_install(run_python) -> None:
    done = run_python(
        """
import sys
sys.modules["lightning"] = sys.modules["pytorch_lightning"] = None
import kineto_spyre
kineto_spyre.emulator.enable()
try:
    import kineto_spyre.emulator.lightning
except ImportError as error:
    print(error)
"""
    )
    assert done.stdout.strip().endswith("Run: pip install lightning")
