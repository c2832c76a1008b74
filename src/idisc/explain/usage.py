"""How many IDRs a network really uses: shares, likeness, collapse, the effective number.

All of it comes from maps A (N, M), the weight of N IDRs at M pixels, of one picture or of a whole
dataset side by side: those of ISD (attention) or of AFP (partition).

    share         p_j = mean of A_j over the pixels; the shares sum to 1
    likeness      S_ij = <A_i, A_j> / (|A_i| |A_j|), the cosine of two maps; 1 for the same places
    used          exp(-sum_j p_j log p_j), the perplexity of the shares: how many IDRs have weight
    effective     exp(-sum_k e_k log e_k), e_k the eigenvalues of sqrt(p_i) S_ij sqrt(p_j)

The last one is the Vendi score of Friedman and Dieng (2023), weighted by the shares. It is N for N
IDRs of equal share in different places, 1 for N that are all in the same places, and one that is
read nowhere does not count: collapse shows as a number, whichever way it comes about. `used` sees
only the latter way. An IDR is *merged* if a stronger one has a map of likeness `MERGED` or more,
and *idle* if its share is below a tenth of an even one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from idisc.errors import InputError
from idisc.explain.idrs import Explanation, Level

Floats = NDArray[np.float64]
Kind = Literal["attention", "partition"]
KINDS: dict[Kind, str] = {"attention": "read by ISD", "partition": "dealt out by AFP"}
COLUMNS = ("in effect", "in a picture", "used", "merged", "idle")  # of a table; `LevelUsage.row`
MERGED = 0.95  # cosine of two maps
IDLE = 0.1  # of the share that each would have if all had the same


@dataclass(frozen=True)
class Usage:
    """What a set of maps says of the IDRs."""

    shares: Floats  # (N,), sum 1
    likeness: Floats = field(repr=False)  # (N, N), symmetric, 1 on the diagonal

    @property
    def used(self) -> float:
        """Perplexity of the shares, 1 to N."""
        return _perplexity(self.shares)

    @property
    def effective(self) -> float:
        """Effective number of IDRs: Vendi score weighted by shares, 1 to N."""
        root = np.sqrt(self.shares)
        return _perplexity(np.linalg.eigvalsh(self.likeness * np.outer(root, root)))

    @property
    def idle(self) -> list[int]:
        """IDRs with next to no share."""
        return np.flatnonzero(self.shares < IDLE / len(self.shares)).tolist()

    @property
    def merged(self) -> dict[int, tuple[int, float]]:
        """IDRs that degenerate onto a stronger one: {IDR: (the other, likeness)}; no idle ones."""
        order = self.by_share()
        found: dict[int, tuple[int, float]] = {}
        for place, idr in enumerate(order[1:], start=1):
            stronger = order[:place]
            like = self.likeness[idr, stronger]
            nearest = int(like.argmax())
            if like[nearest] >= MERGED:
                found[idr] = stronger[nearest], float(like[nearest])
        return {idr: found[idr] for idr in sorted(set(found) - set(self.idle))}

    @property
    def groups(self) -> dict[int, list[int]]:
        """Merged IDRs by the one they end at, which is not merged itself and the strongest."""
        onto = {idr: other for idr, (other, _) in self.merged.items()}
        found: dict[int, list[int]] = {}
        for idr in onto:
            root = idr
            while root in onto:  # each step leads to a stronger one
                root = onto[root]
            found.setdefault(root, []).append(idr)
        return dict(sorted(found.items()))

    def by_share(self) -> list[int]:
        """All IDRs, the strongest first."""
        order: list[int] = np.argsort(-self.shares, kind="stable").tolist()
        return order

    def telling(self, count: int) -> list[int]:
        """Some IDRs worth a look: the strongest, but each unlike those before it."""
        order, chosen = self.by_share(), list[int]()
        for limit in (0.6, 0.8, MERGED, np.inf):  # likeness, until there are enough
            for idr in order:
                known = idr in chosen or len(chosen) >= count
                if not known and (self.likeness[idr, chosen] < limit).all():
                    chosen.append(idr)
        return chosen

    def as_json(self) -> dict[str, Any]:
        """Numbers for a file."""
        return {
            "effective": round(self.effective, 3),
            "used": round(self.used, 3),
            "idle": self.idle,
            "merged": [
                {"idr": idr, "onto": other, "likeness": round(like, 4)}
                for idr, (other, like) in self.merged.items()
            ],
            "shares": self.shares.round(6).tolist(),
            "likeness": self.likeness.round(4).tolist(),
        }


class Tally:
    """Maps of one kind at one level, picture after picture, as if side by side in one."""

    def __init__(self) -> None:
        self._gram: Floats | float = 0.0  # A A^T, the pixels of each picture weighing 1 in all
        self._shares: Floats | float = 0.0
        self._count = 0

    def add(self, maps: NDArray[Any]) -> Usage:
        """Take in maps (N, h, w) of a picture; the usage in this one alone."""
        flat = maps.reshape(len(maps), -1).astype(np.float64)  # A (N, M)
        gram, shares = flat @ flat.T / flat.shape[1], flat.mean(axis=1)
        self._gram, self._shares = self._gram + gram, self._shares + shares
        self._count += 1
        return _usage(gram, shares)

    def usage(self) -> Usage:
        """The usage in all pictures; InputError without any."""
        if not self._count:
            raise InputError("no picture, so no usage of IDRs")
        return _usage(np.asarray(self._gram) / self._count, np.asarray(self._shares) / self._count)


def numbered_idrs(count: int) -> range:
    """Of N IDRs those whose numbers stand along an axis: of 32 every eighth."""
    step = 1
    while count > 4 * step:
        step *= 2
    return range(0, count, step)


def usage_of(maps: NDArray[Any]) -> Usage:
    """The usage in the maps (N, h, w) of one picture, or of several, (N, M)."""
    return Tally().add(maps)


@dataclass(frozen=True)
class LevelUsage:
    """One level over all pictures."""

    index: int
    stride: int
    total: Mapping[Kind, Usage]  # the maps of all pictures side by side
    pictures: Mapping[Kind, Sequence[float]]  # effective number in each picture, in their order

    @property
    def name(self) -> str:
        """For people."""
        return f"level {self.index} (stride {self.stride})"

    def row(self, kind: Kind) -> list[str]:
        """Its numbers, under `COLUMNS`."""
        usage = self.total[kind]
        values = (usage.effective, np.mean(self.pictures[kind]), usage.used)
        counts = (len(usage.merged), len(usage.idle))
        return [*(f"{value:.2f}" for value in values), *map(str, counts)]


@dataclass(frozen=True)
class Report:
    """A network's IDRs over a set of pictures."""

    names: tuple[str, ...]  # of the pictures
    levels: tuple[LevelUsage, ...]

    def as_json(self) -> dict[str, Any]:
        """Numbers for a file: the totals of each level, then picture by picture."""
        return {
            "definitions": {
                "effective": "Vendi score of the maps' cosines, weighted by shares",
                "used": "perplexity of the shares",
                "merged": f"cosine of at least {MERGED:g} with a stronger IDR's map",
                "idle": f"share below {IDLE:g} / N",
            },
            "levels": [
                {
                    "level": level.index,
                    "stride": level.stride,
                    **{kind: usage.as_json() for kind, usage in level.total.items()},
                }
                for level in self.levels
            ],
            "pictures": [
                {
                    "name": name,
                    **{
                        f"effective_{kind}": [
                            round(level.pictures[kind][place], 3) for level in self.levels
                        ]
                        for kind in self.levels[0].pictures
                    },
                }
                for place, name in enumerate(self.names)
            ],
        }


class Collector:
    """Explanations in, one after the other; a report out."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._levels: list[Level] = []  # of the last picture; numbers and strides are those of all
        self._tallies: dict[tuple[int, Kind], Tally] = {}
        self._pictures: dict[tuple[int, Kind], list[float]] = {}

    def add(self, name: str, explanation: Explanation) -> list[Usage]:
        """Take in a picture; the usage of its attention at each level."""
        self._names.append(name)
        self._levels = list(explanation.levels)
        found: list[Usage] = []
        for level in explanation.levels:
            for kind in KINDS:
                maps = getattr(level, kind)
                if maps is None:
                    continue
                usage = self._tallies.setdefault((level.index, kind), Tally()).add(maps)
                self._pictures.setdefault((level.index, kind), []).append(usage.effective)
                if kind == "attention":
                    found.append(usage)
        return found

    def report(self) -> Report:
        """Everything so far; InputError if that is nothing."""
        if not self._names:
            raise InputError("no picture, so no usage of IDRs")
        return Report(tuple(self._names), tuple(self._level(level) for level in self._levels))

    def _level(self, level: Level) -> LevelUsage:
        kinds = [kind for kind in KINDS if (level.index, kind) in self._tallies]
        return LevelUsage(
            level.index,
            level.stride,
            {kind: self._tallies[level.index, kind].usage() for kind in kinds},
            {kind: tuple(self._pictures[level.index, kind]) for kind in kinds},
        )


def _usage(gram: Floats, shares: Floats) -> Usage:
    lengths = np.sqrt(np.diag(gram))
    scale = np.where(lengths > 0, 1 / np.maximum(lengths, 1e-300), 0)  # a map of zeros is like none
    likeness = np.clip(gram * np.outer(scale, scale), 0, 1)
    np.fill_diagonal(likeness, 1)
    return Usage(shares / shares.sum(), likeness)


def _perplexity(shares: Floats) -> float:
    """exp of the entropy, 0 log 0 being 0; rounding may have left tiny negative numbers."""
    there = shares[shares > 1e-12]
    return float(np.exp(-(there * np.log(there)).sum()))
