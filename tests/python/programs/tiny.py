"""Tiny models by architecture: name to a function that makes one."""

from __future__ import annotations

from typing import Any

VOCABULARY = 96
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def causal(architecture: str, **changes: Any) -> Any:
    """A decoder for text, in evaluation mode."""
    import transformers

    special = {
        "Mamba": {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2},
        "Mixtral": _SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2},
        "GraniteMoe": _SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2},
        "GraniteMoeHybrid": _SMALL
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 48,
            "layer_types": ["mamba", "attention"],
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 8,
        },
        "GptOss": _SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 8},
    }
    settings = special.get(architecture, _SMALL) | changes
    config = getattr(transformers, f"{architecture}Config")(**settings)
    return getattr(transformers, f"{architecture}ForCausalLM")(config).eval()


def bert() -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(
        BertConfig(vocab_size=VOCABULARY, max_position_embeddings=64, num_labels=3, **_ENCODER)
    )


def vit(**changes: Any) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    settings = {"image_size": 16, "patch_size": 4, "num_labels": 3} | _ENCODER | changes
    return ViTForImageClassification(ViTConfig(**settings))


def t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
    )


def whisper() -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=VOCABULARY,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            num_mel_bins=8,
            max_source_positions=20,
            max_target_positions=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        )
    )
