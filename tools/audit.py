"""List the licences of all dependencies and look for known vulnerabilities.

    python tools/audit.py

A licence that is not permissive is refused unless EXCEPTIONS explains it (exit code 3).
Vulnerabilities are reported by pip-audit and do not change the exit code, because a new advisory
must not block an unrelated change. The report says how many distributions could be looked up,
and why the others could not; without a network there are none.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = re.compile(
    r"Apache|\bBSD|\bMIT\b|MIT-CMU|\bISC\b|\bPSF|Python Software Foundation|MPL-2|Mozilla"
    r"|HPND|Zlib|Unlicense|CC0|Public Domain|0BSD|3-Clause",
    re.IGNORECASE,
)
RESTRICTIVE = re.compile(r"GPL|SSPL|non-?commercial|proprietary", re.IGNORECASE)
NVIDIA = "NVIDIA's terms; comes with torch on Linux"
EXCEPTIONS = {
    "pillow-heif": "BSD-3-Clause; its wheel bundles x265 (GPL), so it is an extra, never base",
    "cuda-toolkit": NVIDIA,
    "openexr": "BSD-3-Clause, by its repository; the wheel states none",
    "av": "BSD-3-Clause; its wheel bundles x264 (GPL), so it is an extra, never base",
}


def licence_of(name: str) -> str:
    """Return the licence that a distribution states."""
    found = metadata.metadata(name)
    classified = [
        each.rpartition(":: ")[2]
        for each in found.get_all("Classifier", [])
        if each.startswith("License ::")
    ]
    stated = found.get("License-Expression") or ", ".join(classified) or found.get("License", "")
    return (stated.strip().splitlines() or ["not stated"])[0]


def is_permissive(licence: str) -> bool:
    """Tell whether a licence, or one of those to choose from, is permissive."""
    choices = re.split(r"\bOR\b", licence)
    return any(PERMISSIVE.search(each) and not RESTRICTIVE.search(each) for each in choices)


def dependencies(name: str, extras: frozenset[str]) -> Iterator[str]:
    """Yield the installed distributions that one needs, with those of its extras; some twice."""
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        chosen = [{"extra": extra} for extra in extras | {""}]
        if requirement.marker and not any(map(requirement.marker.evaluate, chosen)):
            continue
        try:
            metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here
        yield canonicalize_name(requirement.name)


def closure() -> list[str]:
    """Return all distributions that idisc needs with every extra but `dev`."""
    extras = set(metadata.metadata("idisc").get_all("Provides-Extra", [])) - {"dev"}
    waiting, found = list(dependencies("idisc", frozenset(extras))), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += dependencies(name, frozenset())
    return sorted(found)


def report_vulnerabilities(names: list[str]) -> None:
    """Print what pip-audit finds, how many distributions it looked up, and why not the others."""
    versions = {name: metadata.version(name).partition("+")[0] for name in names}
    audited, failure = run_pip_audit(versions)
    known = [each for each in audited if "vulns" in each]
    print(f"vulnerabilities: {len(known)} of {len(names)} distributions could be looked up")
    skipped = [each["skip_reason"] for each in audited if "skip_reason" in each]
    if reason := failure or next(iter(skipped), ""):
        others = f" ({len(skipped) - 1} others alike)" if len(skipped) > 1 else ""
        print(f"  the reason: {reason}{others}")
    for each in known:
        for found in each["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version"
            print(f"  {each['name']} {each['version']}: {found['id']}, fixed in {fixed}")


def run_pip_audit(versions: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of pip-audit's report, and why there are none, if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder) / "pinned.txt"
        pinned.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
        command = [sys.executable, "-m", "pip_audit", *options, "-r", str(pinned)]
        try:
            done = subprocess.run(command, text=True, capture_output=True, timeout=180, check=False)
        except subprocess.TimeoutExpired as error:
            return [], str(error)
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except (ValueError, KeyError, TypeError):  # no report
        lines = done.stderr.strip().splitlines()
        return [], lines[-1] if lines else f"pip-audit ended with exit code {done.returncode}"


def main() -> int:
    names = closure()
    refused = []
    for name in names:
        explained = NVIDIA if name.startswith("nvidia-") else EXCEPTIONS.get(name)
        licence = explained or licence_of(name)
        print(f"{name:28} {metadata.version(name):16} {licence[:80]}")
        if not explained and not is_permissive(licence):
            refused.append(name)
    report_vulnerabilities(names)
    if refused:
        print(f"licence not permissive or not stated: {', '.join(refused)}")
    return 3 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
