"""Ray reads its settings when it is imported, so `idisc.cluster`, which has them, comes first."""

from contextlib import suppress

from idisc.errors import MissingExtra

with suppress(MissingExtra):
    import idisc.cluster  # noqa: F401
