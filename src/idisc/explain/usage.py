"""How many IDRs a network uses: their shares, similarity, collapse and effective number.

Everything is computed from maps A (N, M), the weights of N IDRs at M pixels of one picture or of a
whole dataset: the attention of ISD or the partition of AFP.

    share         p_j = mean of A_j over the pixels; the shares sum to 1
    similarity    S_ij = <A_i, A_j> / (|A_i| |A_j|), the cosine of two maps
    used          exp(-sum_j p_j log p_j), the perplexity of the shares: how many IDRs have weight
    effective     exp(-sum_k e_k log e_k), e_k the eigenvalues of sqrt(p_i) S_ij sqrt(p_j)

`effective` is the Vendi score of Friedman and Dieng (2023), weighted by the shares. It is N for N
IDRs of equal share in different places and 1 for N identical maps, and an IDR without weight does
not count. An IDR is *merged* if its map has a similarity of `MERGED` or more with that of an IDR of
larger share, and *dead* if its share is below a tenth of an equal share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from idisc.explain.ablate import mute
from idisc.explain.idrs import Explanation

Floats = NDArray[np.float64]
Kind = Literal["attention", "partition"]
KINDS: dict[Kind, str] = {"attention": "attention of ISD", "partition": "partition of AFP"}
COLUMNS = ("effective", "per picture", "used", "merged", "dead", "muting")  # `LevelUsage.row`
MERGED = 0.95  # cosine of two maps
DEAD = 0.1  # of an equal share


@dataclass(frozen=True)
class Usage:
    """The usage of the IDRs in a set of maps."""

    shares: Floats  # (N,), sum 1
    products: Floats = field(repr=False)  # A A^T / M (N, N)

    @cached_property
    def similarity(self) -> Floats:
        """The cosines of the maps (N, N), symmetric, 1 on the diagonal; 0 for a map of zeros."""
        lengths = np.sqrt(np.diag(self.products))
        scale = np.where(lengths > 0, 1 / np.maximum(lengths, 1e-300), 0)
        similarity = np.clip(self.products * np.outer(scale, scale), 0, 1)
        np.fill_diagonal(similarity, 1)
        return similarity

    @property
    def used(self) -> float:
        """The perplexity of the shares, 1 to N."""
        return _perplexity(self.shares)

    @property
    def effective(self) -> float:
        """The effective number of IDRs: the Vendi score weighted by shares, 1 to N."""
        root = np.sqrt(self.shares)
        return _perplexity(np.linalg.eigvalsh(self.similarity * np.outer(root, root)))

    @property
    def dead(self) -> list[int]:
        """The IDRs with almost no share."""
        return np.flatnonzero(self.shares < DEAD / len(self.shares)).tolist()

    @property
    def merged(self) -> dict[int, tuple[int, float]]:
        """IDRs that duplicate one of larger share: {IDR: (the other, similarity)}; no dead ones."""
        order = self.by_share()
        merged: dict[int, tuple[int, float]] = {}
        for rank, idr in enumerate(order[1:], start=1):
            similarity = self.similarity[idr, order[:rank]]
            nearest = int(similarity.argmax())
            if similarity[nearest] >= MERGED:
                merged[idr] = order[nearest], float(similarity[nearest])
        return {idr: merged[idr] for idr in sorted(set(merged) - set(self.dead))}

    @property
    def groups(self) -> dict[int, list[int]]:
        """Merged IDRs by the IDR at the end of their chain, which is not merged itself."""
        merged = self.merged
        groups: dict[int, list[int]] = {}
        for idr in merged:
            root = idr
            while root in merged:  # each step leads to a larger share
                root = merged[root][0]
            groups.setdefault(root, []).append(idr)
        return dict(sorted(groups.items()))

    def by_share(self) -> list[int]:
        """Return all IDRs, the one with the largest share first."""
        order: list[int] = np.argsort(-self.shares, kind="stable").tolist()
        return order

    def representative(self, count: int) -> list[int]:
        """Return `count` IDRs with large shares whose maps differ from each other."""
        order, chosen = self.by_share(), list[int]()
        for limit in (0.6, 0.8, MERGED, np.inf):  # of similarity, raised until there are enough
            for idr in order:
                if idr not in chosen and (self.similarity[idr, chosen] < limit).all():
                    chosen.append(idr)
            if len(chosen) >= count:
                break
        return chosen[:count]

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            "effective": round(self.effective, 3),
            "used": round(self.used, 3),
            "dead": self.dead,
            "merged": [
                {"idr": idr, "onto": other, "similarity": round(similarity, 4)}
                for idr, (other, similarity) in self.merged.items()
            ],
            "shares": self.shares.round(6).tolist(),
            "similarity": self.similarity.round(4).tolist(),
        }


def usage_of(maps: NDArray[Any]) -> Usage:
    """Return the usage in the maps (N, h, w) of one picture, or of several, (N, M)."""
    flat = maps.reshape(len(maps), -1).astype(np.float64)  # A (N, M)
    shares = flat.mean(axis=1)
    return Usage(shares / shares.sum(), flat @ flat.T / flat.shape[1])


def mean_usage(usages: Sequence[Usage]) -> Usage:
    """Return the usage in several pictures together, each of which has the same weight."""
    shares, products = ([getattr(u, name) for u in usages] for name in ("shares", "products"))
    return Usage(np.mean(shares, axis=0), np.mean(products, axis=0))


@dataclass(frozen=True)
class LevelUsage:
    """The usage of the IDRs of one level, in one picture or in several."""

    index: int
    stride: int
    total: Mapping[Kind, Usage]  # of the maps of all pictures together
    pictures: Mapping[Kind, Sequence[float]]  # the effective number in each picture
    muting: Sequence[float]  # for each picture, the mean change without the IDR of largest share

    @property
    def name(self) -> str:
        """The level as text."""
        return f"level {self.index} (stride {self.stride})"

    def row(self, kind: Kind) -> list[str]:
        """Return the numbers as text, in the order of `COLUMNS`."""
        usage = self.total[kind]
        values = (usage.effective, np.mean(self.pictures[kind]), usage.used)
        counts = (len(usage.merged), len(usage.dead))
        muting = f"{np.mean(self.muting):.3f}" if kind == "attention" else ""
        return [*(f"{value:.2f}" for value in values), *map(str, counts), muting]


@dataclass(frozen=True)
class Report:
    """The IDRs of a network over a set of pictures."""

    names: tuple[str, ...]  # of the pictures
    levels: tuple[LevelUsage, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the totals of each level, then the numbers of each picture, as JSON values."""
        return {
            "definitions": {
                "effective": "Vendi score of the maps' cosines, weighted by shares",
                "used": "perplexity of the shares",
                "merged": f"cosine of at least {MERGED:g} with the map of an IDR of larger share",
                "dead": f"share below {DEAD:g} / N",
                "muting": "mean change of the prediction without the IDR of the largest share of"
                " attention, in metres or degrees",
            },
            "levels": [
                {
                    "level": level.index,
                    "stride": level.stride,
                    "muting": round(float(np.mean(level.muting)), 4),
                    **{kind: usage.as_json() for kind, usage in level.total.items()},
                }
                for level in self.levels
            ],
            "pictures": [
                {
                    "name": name,
                    **{
                        f"effective_{kind}": [
                            round(level.pictures[kind][index], 3) for level in self.levels
                        ]
                        for kind in self.levels[0].pictures
                    },
                }
                for index, name in enumerate(self.names)
            ],
        }


class Collector:
    """Collects the usage in pictures, one by one, into a report."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._pictures: list[list[LevelUsage]] = []

    def add(self, name: str, explanation: Explanation) -> list[LevelUsage]:
        """Add a picture, and return the usage at each level in this picture."""
        levels = []
        for level in explanation.levels:
            total: dict[Kind, Usage] = {"attention": usage_of(level.attention)}
            if level.partition is not None:
                total["partition"] = usage_of(level.partition)
            effective = {kind: [usage.effective] for kind, usage in total.items()}
            largest = total["attention"].by_share()[0]
            muting = [mute(explanation, {level.index: {largest}}).mean]
            levels.append(LevelUsage(level.index, level.stride, total, effective, muting))
        self._names.append(name)
        self._pictures.append(levels)
        return levels

    def report(self) -> Report:
        """Return the report on all pictures so far, at least one."""
        levels = []
        for same in zip(*self._pictures, strict=True):  # one level in all pictures
            kinds = list(same[0].total)
            total = {kind: mean_usage([level.total[kind] for level in same]) for kind in kinds}
            effective = {kind: [level.pictures[kind][0] for level in same] for kind in kinds}
            muting = [level.muting[0] for level in same]
            levels.append(replace(same[0], total=total, pictures=effective, muting=muting))
        return Report(tuple(self._names), tuple(levels))


def _perplexity(shares: Floats) -> float:
    """Return exp of the entropy with 0 log 0 = 0; rounding may have left tiny negative numbers."""
    positive = shares[shares > 1e-12]
    return float(np.exp(-(positive * np.log(positive)).sum()))
