"""Configuration: the dataclasses, their values by name, and their conversion.

`schema` has the dataclasses, `recipes` their values, `paper` the numbers of the paper; `parsing` is
the conversion from JSON and from `--set a.b=value`, whose functions are also available here.
"""

from __future__ import annotations

from idisc.configs.parsing import FILE, FORMAT, from_json, override, to_json

__all__ = ["FILE", "FORMAT", "from_json", "override", "to_json"]
