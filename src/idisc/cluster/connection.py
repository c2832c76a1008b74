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

AUTO, LOCAL = "auto", "local"  # auto: the Ray that runs on this machine, or a new one
OBJECT_STORE_BYTES = 200 << 20  # of a new Ray; results are small
CONNECT_TIMEOUT_S = 10.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(
    [0, 0, 0, 4, 0, 0, 0, 0, 0]
)  # the preface of HTTP/2 and a frame of empty settings
_SETTINGS = 4  # the type of the first frame in an answer of HTTP/2, which gRPC uses
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
    """Raise an InputError unless gRPC answers at the address; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        remedy = "write HOST:PORT, as 10.0.0.1:6379"
        raise InputError(f"--cluster {address}", "not an address", remedy)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S) as stream:
            stream.sendall(_HELLO)
            answer = stream.recv(4)  # length and type of a frame
        if answer[3:] != bytes([_SETTINGS]) and os.environ.get("RAY_USE_TLS") != "1":
            raise ConnectionError("something else answers")
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
        except ConnectionError:  # no Ray runs on this machine
            if address != AUTO:
                raise
            _release_signals()
    options = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    # Signals are held when the processes of Ray have started, because these would inherit it.
    with ports_in_advance(on_started=_hold_signals):
        ray.init(address=LOCAL, **quiet, **options)


def _hold_signals() -> None:
    """Delay SIGTERM and Ctrl-C while this process connects, because Ray would abort it."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, _DELAYED)


def _release_signals() -> None:
    if threading.current_thread() is threading.main_thread():  # others may not set handlers
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # replaces that of Ray
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _DELAYED)


@contextmanager
def ports_in_advance(on_started: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ray start on a busy machine, where its agents need more than 15 s to write their ports.

    Ray aborts then (its issue 65983). No setting changes the time, and Ray waits even if it is
    started with fixed ports. The files that it waits for are therefore written in advance: the
    ports of the dashboard's agent are not used (-1), and the other agent gets a free port.
    """
    try:
        from ray._private.node import Node
        from ray._raylet import persist_port  # type: ignore[attr-defined]
    except ImportError:  # an older version, without such files
        yield
        return
    start = Node.start_ray_processes

    def start_with_ports(node: Any) -> None:
        for name in _UNUSED_PORTS:
            persist_port(node._session_dir, node._node_id, name, -1)
        with socket.create_server(("", 0)) as free:
            node._ray_params.runtime_env_agent_port = free.getsockname()[1]
        start(node)
        on_started()

    Node.start_ray_processes = start_with_ports
    try:
        yield
    finally:
        Node.start_ray_processes = start
