"""How clients share the server: who counts as one client, and which of them gives way."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar


class Holder(Protocol):
    """Something that occupies the server: a connection or an upload."""

    address: str  # of its client, see `client_group`
    heard: float  # when its last bytes came or went, by the clock of the loop


H = TypeVar("H", bound=Holder)


def client_group(host: str) -> str:
    """Return the name under which a client is counted.

    An IPv4 client is its address. An IPv6 client is its /64 network, because whoever has one
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
    """Return the longest silent holder among those of the client with the largest total cost."""
    totals: defaultdict[str, float] = defaultdict(float)
    for each in holders:
        totals[each.address] += cost(each)
    return max(holders, key=lambda each: (totals[each.address], -each.heard))
