"""RayExecutor: work runs as tasks of Ray on the machines of a cluster.

Ray itself gives a task to another worker if a process or a machine dies, and uses machines that
join later. Workers stay alive between tasks, so that each of them opens a network once.
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

CHECK_S = 2.0  # between two looks at the machines of the cluster


@dataclass(frozen=True, kw_only=True)
class RayExecutor:
    """Workers on a cluster that this process is connected to."""

    cpus: float = 1.0  # of each worker, as the following
    gpus: float = 0.0
    memory: int = 1 << 30  # bytes: network and one picture; fewer workers start where it is scarce
    workers: int | None = None  # None: as many as there is room for

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Generator[Outcome[Item, Value], None, None]:
        """Yield the outcome of each item; see `executors.Executor.map`.

        Closing the generator starts no more tasks. Those that run end with the connection: Ray
        aborts this process if a task that `ray.cancel` ends by force is done at that moment.
        """
        if self.workers is None and not self.room():
            wanted = f"{self.cpus:g} CPU, {self.gpus:g} GPU and {self.memory / 2**30:.1f} GiB"
            remedy = "add a larger machine, or pass --workers if the cluster grows on demand"
            raise InputError("--cluster", f"no machine has {wanted} for a worker", remedy)
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": self.memory}
        # With a GPU, Ray would start a process for each task: max_calls=0 keeps the network there.
        task = ray.remote(**options, max_retries=MAX_DEATHS - 1, max_calls=0)(_run)
        work = ray.put((function, str(Path.cwd())))
        waiting, running = enumerate(items), dict[Any, tuple[int, Item]]()
        room, looked = 0, -CHECK_S
        while True:
            if time.monotonic() - looked > CHECK_S:
                room, looked = self.workers or 2 * max(self.room(), 1), time.monotonic()
            for index, item in islice(waiting, max(room - len(running), 0)):
                running[task.remote([work], index, item)] = index, item
            if not running:
                return
            for reference in ray.wait(list(running), timeout=CHECK_S)[0]:
                yield _outcome(reference, *running.pop(reference))

    def room(self) -> int:
        """Return how many workers the machines of the cluster can hold."""
        needs = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return sum(
            min(int(there.get(name, 0) / amount) for name, amount in needs.items() if amount)
            for there in machines
        )


def _run(work: list[Any], index: int, item: Any) -> Outcome[Any, Any]:
    """Run in a worker; the function is in a list, so that Ray does not copy it for each task."""
    return attempt(_function(work[0]), index, item)


@cache
def _function(reference: Any) -> Callable[[Any], Any]:
    function, folder = ray.get(reference)
    with suppress(OSError):  # relative paths are those of the driver, if its folder is shared
        os.chdir(folder)
    return function  # type: ignore[no-any-return]


def _outcome(reference: Any, index: int, item: Item) -> Outcome[Item, Any]:
    """Return what a task returned, or the reason why it could not run."""
    try:
        found: Outcome[Item, Any] = ray.get(reference)
        return found
    except RayTaskError as error:  # before the function was called, whose exceptions are values
        reason = f"workers cannot run idisc ({first_line(error.cause or error)})"
        remedy = "install the same version of idisc[cluster] on all machines"
        return Outcome(index, item, error=InputError("--cluster", reason, remedy))
    except RayError:
        return died(index, item)
