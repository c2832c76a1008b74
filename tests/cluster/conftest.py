"""Ray reads its settings when it is imported, so `idisc.cluster`, which has them, comes first."""

import os
from contextlib import suppress

from idisc.errors import MissingExtra

os.environ.setdefault("RAY_raylet_start_wait_time_s", "600")
with suppress(MissingExtra):
    import idisc.cluster  # noqa: F401
