"""Devices on which torch can compute."""

from __future__ import annotations

import torch

from idisc.errors import InputError, first_line


def usable(name: str) -> torch.device:
    """Return the device `name` ("cpu", "cuda:1"); InputError if torch cannot compute on it."""
    try:
        device = torch.device(name)
        torch.zeros(1).to(device).item()  # "meta" is a device that cannot compute
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no common class
        raise InputError(f"--device {name}", first_line(error)) from None
    return device
