"""The metrics of `/metrics` for Prometheus; each server has its own registry."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "idisc_requests", "Answers.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "idisc_work_seconds",
            "Seconds of a job in the worker thread, without waiting.",
            ["kind"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.abandoned = Counter(
            "idisc_abandoned", "Jobs whose client did not wait.", registry=self.registry
        )
        ProcessCollector(registry=self.registry)  # memory, CPU seconds, open files

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is computed on request."""
        Gauge(name, description, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
