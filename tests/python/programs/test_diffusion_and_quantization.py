"""Programs of diffusers and torchao, which are optional: without them the tests are skipped."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_diffusion_loop_and_a_training_step(on_both, memory_format) -> None:
    diffusers = pytest.importorskip("diffusers", reason="this program needs diffusers (pip install diffusers)")

    def program(device):
        unet = diffusers.UNet2DModel(
            sample_size=16,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            norm_num_groups=8,
        ).to(device, memory_format=memory_format)
        scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)
        scheduler.set_timesteps(3)
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(2, 3, 16, 16).to(device, memory_format=memory_format)
        unet(x, torch.tensor([5, 7], device=device)).sample.square().mean().backward()
        with torch.no_grad():
            for t in scheduler.timesteps:
                x = scheduler.step(unet(x, t.to(device)).sample, t, x, generator=generator).prev_sample
        return x, [p.grad for p in unet.parameters() if p.grad is not None]

    on_both(program)


@pytest.mark.parametrize("config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_a_quantized_model(on_both, config) -> None:
    quantization = pytest.importorskip(
        "torchao.quantization", reason="this program needs torchao (pip install torchao)"
    )

    def program(device):
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
        model = model.to(device, torch.bfloat16)
        quantization.quantize_(model, getattr(quantization, config)())
        with torch.no_grad():
            return model(torch.randn(8, 64, dtype=torch.bfloat16).to(device))

    on_both(program)
