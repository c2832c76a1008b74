"""RayExecutor: runs work as Ray tasks on the machines of a cluster.

If a process or a machine dies, Ray gives its task to another worker. Machines may join later.
Workers stay alive between tasks, so that each of them opens a network once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from idisc.errors import InputError, first_line
from idisc.executors import MAX_DEATHS, Item, Outcome, Value, attempt, died

CHECK_INTERVAL_S = 2.0  # between two requests for the machines of the cluster


@dataclass(frozen=True, kw_only=True)
class RayExecutor:
    """Workers on a cluster that this process is connected to."""

    cpus: float = 1.0  # per worker
    gpus: float = 0.0  # per worker
    memory: int = 1 << 30  # bytes per worker, for a network and one picture
    workers: int | None = None  # None: as many as fit

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Value], None, None]:
        """Yield the outcome of each item; see `executors.Executor.map`.

        If the generator is closed, no more tasks start. Running tasks end with the connection;
        they are not cancelled, because Ray aborts this process if a task that `ray.cancel` ends
        by force finishes at that moment.
        """
        if self.workers is None and not self.room():
            wanted = f"{self.cpus:g} CPU, {self.gpus:g} GPU and {self.memory / 2**30:.1f} GiB"
            remedy = "add a larger machine, or pass --workers if the cluster grows on demand"
            raise InputError("--cluster", f"no machine has {wanted} for a worker", remedy)
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": self.memory}
        # With a GPU, Ray would start a process for each task: max_calls=0 keeps the network there.
        task = ray.remote(**options, max_retries=MAX_DEATHS - 1, max_calls=0)(_run)
        context = ray.put((function, str(Path.cwd())))
        waiting, running = enumerate(items), dict[Any, tuple[int, Item]]()
        max_running, last_check = 0, -CHECK_INTERVAL_S
        while True:
            if time.monotonic() - last_check > CHECK_INTERVAL_S:
                last_check = time.monotonic()
                max_running = self.workers or 2 * max(self.room(), 1)
            for index, item in islice(waiting, max(max_running - len(running), 0)):
                running[task.remote([context], index, item)] = index, item
            if not running:
                return
            for reference in ray.wait(list(running), timeout=CHECK_INTERVAL_S)[0]:
                yield _outcome(reference, *running.pop(reference))

    def room(self) -> int:
        """Return how many workers the machines of the cluster can hold."""
        needs = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return sum(
            min(int(machine.get(name, 0) / amount) for name, amount in needs.items() if amount)
            for machine in machines
        )


def _run(context: list[Any], index: int, item: Any) -> Outcome[Any, Any]:
    """Run in a worker; a reference in a list is not resolved by Ray for each task."""
    return attempt(_function(context[0]), index, item)


@cache
def _function(reference: Any) -> Callable[[Any], Any]:
    function, folder = ray.get(reference)
    with suppress(OSError):  # for relative paths, if the folder of the driver is shared
        os.chdir(folder)
    return function  # type: ignore[no-any-return]


def _outcome(reference: Any, index: int, item: Item) -> Outcome[Item, Any]:
    """Return the outcome of a task, or the reason why it could not run."""
    try:
        outcome: Outcome[Item, Any] = ray.get(reference)
        return outcome
    except RayTaskError as error:  # exceptions of the function are values, so it was not called
        reason = f"workers cannot run idisc ({first_line(error.cause or error)})"
        remedy = "install the same version of idisc[cluster] on all machines"
        return Outcome(index, item, error=InputError("--cluster", reason, remedy))
    except RayError:
        return died(index, item)
