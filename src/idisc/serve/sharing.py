"""How clients share the server: what counts as one client, and whose request is dropped first."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar


class Holder(Protocol):
    """A connection or an upload, which occupies the server."""

    client_group: str  # see the function `client_group`
    last_activity: float  # by the clock of the event loop


H = TypeVar("H", bound=Holder)


def client_group(host: str) -> str:
    """Return the name under which a client is counted.

    An IPv4 client is its address. An IPv6 client is its /64 network, because a client with one
    address of such a network usually has all of them.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))


def first_to_drop(holders: Collection[H], cost: Callable[[H], float]) -> H:
    """Return the holder that was silent longest, of the client with the largest total cost."""
    totals: defaultdict[str, float] = defaultdict(float)
    for holder in holders:
        totals[holder.client_group] += cost(holder)
    return max(holders, key=lambda holder: (totals[holder.client_group], -holder.last_activity))
