"""Where torch can compute."""

from __future__ import annotations

import torch

from idisc.errors import InputError, first_line


def usable(name: str) -> torch.device:
    """The device called `name` ("cpu", "cuda:1"); InputError if nothing can be computed there."""
    try:
        device = torch.device(name)
        torch.zeros(1).to(device).item()  # "meta" is a device, too, and computes nothing
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no class for it
        raise InputError(f"--device {name}", first_line(error)) from None
    return device
