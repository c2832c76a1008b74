"""`idisc serve`: the web page and the HTTP API."""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
from functools import partial
from typing import Any

import click

from idisc.cli import options, tables
from idisc.errors import InputError, require


def _check_positive(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:  # false for NaN, too
        raise InputError(f"{option.opts[0]} {value:g}", "a finite number above 0 is needed")
    return value


_limit = partial(click.option, type=float, callback=_check_positive)


@click.command(name="serve")
@options.model
@options.convention
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@_limit("--max-upload-mb", "upload_mb", help="Maximum size of an upload in MB [25]")
@_limit("--max-megapixels", "megapixels", help="Maximum size of a picture [25]")
@click.option(
    "--queue",
    type=click.IntRange(1),
    help="Maximum of running and waiting requests; others get 429 [8]",
)
@_limit("--timeout", "timeout_s", help="Timeout of a request in seconds [120]")
@click.option(
    "--forwarded-allow-ips",
    "proxies",
    default="",
    metavar="ADDRESSES",
    help="Proxies whose X-Forwarded-For is trusted: addresses or networks, separated by commas.",
)
@options.device
def command(host: str, port: int, proxies: str, **given: Any) -> None:
    """Serve a web page and an HTTP API for predictions, 3D views and IDRs.

    Only programs on this machine can reach it, unless --host names another address, such as 0.0.0.0
    for all. There are no accounts and no encryption: use a proxy for them.
    """
    require("fastapi", "uvicorn", "python_multipart", "prometheus_client", extra="serve")
    import uvicorn

    from idisc.provenance_text import describe_licence
    from idisc.serve import admission, app, connections, explorer

    network = options.take(given, ("model", "device", "convention"))
    limits = admission.Limits(**options.passed(given))
    hosts = admission.names_at(host)
    _check_proxies(proxies)
    opened = explorer.open_network(**network)
    served = app.create_app(opened, limits, hosts=hosts)
    listening = _listen(host, port)
    model = opened.predictor.model
    tables.note(f"model {model.name}, licence {describe_licence(model)}")
    if hosts is None:
        tables.note(f"{host}: everyone who can reach this machine can use the server")
    name = f"[{host}]" if ":" in host else host
    click.echo(f"http://{name}:{listening.getsockname()[1]}")
    config = connections.server_config(served, proxies)
    uvicorn.Server(config).run(sockets=[listening])


def _check_proxies(proxies: str) -> None:
    for address in filter(None, proxies.split(",")):
        try:
            ipaddress.ip_network(address.strip())
        except ValueError:
            raise InputError(
                f"--forwarded-allow-ips {address}", "neither an address nor a network of addresses"
            ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        wrong_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = (
            "choose another --port" if wrong_port else "--host must be an address of this machine"
        )
        raise InputError(
            f"--host {host} --port {port}", f"cannot listen ({error.strerror})", remedy
        ) from None
