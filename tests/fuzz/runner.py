"""Run cases in a process of their own, so that a crash or a hang costs one case."""

import faulthandler
import logging
import multiprocessing
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from tests.fuzz.kinds import KINDS

from idisc.errors import IdiscError

PATIENCE_S = 60  # for one case
START_S = 900  # for the imports, which a busy machine delays
ACCEPTED, REFUSED, FINDING = "accepted", "refused", "finding"


def fuzz(kind, seed, cases):
    """Count the outcomes of a kind, and return the findings by number of the case."""
    outcomes = []
    while len(outcomes) < cases:
        outcomes += _outcomes(kind, seed, range(len(outcomes), cases))
    findings = {n: text for n, text in enumerate(outcomes) if text not in (ACCEPTED, REFUSED)}
    return Counter(FINDING if n in findings else text for n, text in enumerate(outcomes)), findings


def _outcomes(kind, seed, numbers):
    """The outcomes of cases in one process, up to the first one that it does not survive."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(target=_run, args=(kind, seed, numbers, child), daemon=True)
    process.start()
    child.close()
    if not parent.poll(START_S) or not _received(parent):
        raise RuntimeError(f"{kind}: the inputs could not be built")
    for _ in numbers:
        if not parent.poll(PATIENCE_S):
            process.kill()
            yield f"no end within {PATIENCE_S} s"
            break
        outcome = _received(parent)
        if not outcome:
            process.join()
            yield f"the process ended with {_ending(process.exitcode)}"
            break
        yield outcome
    process.join()


def _run(kind, seed, numbers, pipe):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable()  # remarks of libraries about damaged requests
    with tempfile.TemporaryDirectory() as folder:
        case = KINDS[kind](Path(folder))
        pipe.send("ready")
        for number in numbers:
            try:
                case(np.random.default_rng((seed, number)))
            except IdiscError:
                pipe.send(REFUSED)
            except BaseException:  # whatever it is, it is the result of this case
                pipe.send(traceback.format_exc(limit=-4))
            else:
                pipe.send(ACCEPTED)


def _received(pipe):
    try:
        return str(pipe.recv())
    except EOFError:
        return ""


def _ending(code):
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
