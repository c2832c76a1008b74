"""Run damaged inputs of each kind and report what is neither accepted nor refused.

    python -m tests.fuzz --cases 500 --seed 0 [KIND ...]

Case n of a seed is always the same. The exit code is 3 if there are findings.
"""

import argparse
import sys

from tests.fuzz.kinds import KINDS
from tests.fuzz.runner import ACCEPTED, REFUSED, fuzz


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; by default all")
    parser.add_argument("--cases", type=int, default=500, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error(f"unknown kind {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    found = 0
    for kind in options.kinds or KINDS:
        counts, findings = fuzz(kind, options.seed, options.cases)
        text = f"{counts[ACCEPTED]} accepted, {counts[REFUSED]} refused, {len(findings)} findings"
        print(f"{kind:12} {options.cases} cases: {text}", flush=True)
        for number, finding in findings.items():
            print(f"  {kind} {options.seed}/{number}: {finding.strip()}")
        found += len(findings)
    sys.exit(3 if found else 0)


if __name__ == "__main__":
    main()
