"""Devices on which torch can compute, and the types of its numbers."""

from __future__ import annotations

import torch

from idisc.configs.schema import Precision
from idisc.errors import InputError, first_line

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def usable(name: str) -> torch.device:
    """Return the device `name` ("cpu", "cuda:1"); InputError if torch cannot compute on it."""
    try:
        device = torch.device(name)
        torch.zeros(1).to(device).item()  # "meta" is a device that cannot compute
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no common class
        raise InputError(f"--device {name}", first_line(error)) from None
    return device
