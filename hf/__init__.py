"""Directories made by `icml quantize`, opened by transformers: importing this registers the format.

    import icml.hf
    model = AutoModelForCausalLM.from_pretrained("SmolLM2-2bit")

On a CPU weights are decoded while they are multiplied; see `icml.hf.modules`.
"""

from __future__ import annotations

from icml.formats.huggingface import require_transformers

require_transformers("icml.hf")

from icml.hf.quantizer import IcmlConfig, IcmlQuantizer  # noqa: E402 - after the check, whose error says what to install

__all__ = ["IcmlConfig", "IcmlQuantizer"]
