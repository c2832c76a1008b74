"""Connects to a Ray cluster by its address, or starts Ray on this machine."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray

from idisc.errors import InputError, first_line

AUTO, LOCAL = "auto", "local"  # the Ray that runs here or a new one; a new one
OBJECT_STORE_BYTES = 200 << 20  # of a Ray that is started here: only small results travel
ANSWER_S = 10.0  # a cluster answers within
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(
    [0, 0, 0, 4, 0, 0, 0, 0, 0]
)  # and empty settings
_SETTINGS = 4  # the type of the first frame that HTTP/2, and so gRPC, answers
_UNUSED_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_DELAYED = {signal.SIGTERM, signal.SIGINT}
_START = "`ray start --head` starts Ray on a machine and prints its address"


@contextmanager
def connected(address: str = AUTO) -> Iterator[None]:
    """Connect to Ray for the duration of a block; InputError if there is none at the address.

    `address` is host:port, "auto" or "local". A process that is connected already stays connected.
    """
    if ray.is_initialized():
        yield
        return
    if address not in (AUTO, LOCAL):
        _check(address)
    try:
        _connect(address)
    except Exception as error:  # Ray raises Exception itself if a machine is too slow
        raise InputError(f"--cluster {address}", first_line(error), _START) from None
    finally:
        _release_signals()
    try:
        yield
    finally:
        ray.shutdown()


def _check(address: str) -> None:
    """Raise an InputError unless gRPC answers at the address; Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        remedy = "write HOST:PORT, as 10.0.0.1:6379"
        raise InputError(f"--cluster {address}", "not an address", remedy)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_S) as stream:
            stream.sendall(_HELLO)
            answer = stream.recv(4)  # length and type of a frame
        if answer[3:] != bytes([_SETTINGS]) and os.environ.get("RAY_USE_TLS") != "1":
            raise ConnectionError("something else does")
    except OSError as error:
        reason = f"no Ray answers there ({error.strerror or error})"
        raise InputError(f"--cluster {address}", reason, _START) from None


def _connect(address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address != LOCAL:
        try:
            _hold_signals()
            ray.init(address=address, **quiet)
            return
        except ConnectionError:  # none runs here
            if address != AUTO:
                raise
            _release_signals()
    started = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    with patient(_hold_signals):  # not before: the processes of Ray would hold it, too
        ray.init(address=LOCAL, **quiet, **started)


def _hold_signals() -> None:
    """Delay SIGTERM and Ctrl-C while this process connects, because Ray would abort it."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, _DELAYED)


def _release_signals() -> None:
    if threading.current_thread() is threading.main_thread():  # no other may set handlers
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Python's, not Ray's
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _DELAYED)


@contextmanager
def patient(started: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ray start on a busy machine, where its agents need more than 15 s to tell their ports.

    Ray gives up then (its issue 65983). No setting changes the time, and `ray.init` takes none of
    the ports. So the files that Ray waits for are written before: nobody needs the ports of the
    dashboard's agent (-1), and the other agent gets a free one.
    """
    try:
        from ray._private.node import Node
        from ray._raylet import persist_port  # type: ignore[attr-defined]
    except ImportError:  # an older version, which has no such files
        yield
        return
    start = Node.start_ray_processes

    def start_with_ports(node: Any) -> None:
        for name in _UNUSED_PORTS:
            persist_port(node._session_dir, node._node_id, name, -1)
        with socket.create_server(("", 0)) as free:
            node._ray_params.runtime_env_agent_port = free.getsockname()[1]
        start(node)
        started()

    Node.start_ray_processes = start_with_ports
    try:
        yield
    finally:
        Node.start_ray_processes = start
