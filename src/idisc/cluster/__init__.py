"""Prediction, preparation and evaluation on the machines of a Ray cluster.

    idisc.cluster.predict(dataset)    a Ray dataset with a column of picture bytes -> depth
    idisc.cluster.DepthPredictor      the same for `ray.data.Dataset.map_batches`

`executor` runs the functions of `prepare` and `evaluate` on Ray, and `job` predicts files, tables
and shards part by part. Ray is imported by this package only, for the option --cluster.
"""

import os

from idisc.errors import require

_SETTINGS = {  # Ray reads them when it is imported
    "RAY_USAGE_STATS_ENABLED": "0",  # the user has not agreed to it
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a future default; avoids a warning
    "RAY_raylet_start_wait_time_s": "300",  # seconds; a busy machine needs more than 30
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)
require("ray", "pyarrow", extra="cluster")

from idisc.cluster.pictures import DepthPredictor, predict  # noqa: E402

__all__ = ["DepthPredictor", "predict"]
