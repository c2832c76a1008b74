"""Damaged files, and a check that reading them has no side effects."""

import json
import sys
from contextlib import contextmanager
from functools import cache

# Audit events that reading a file must not cause.
DEEDS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")
DEEDS += ("os.remove", "os.rename", "os.rmdir", "shutil.rmtree", "ctypes.dlopen", "webbrowser.open")


def mutated(content, generator, head=1.0):
    """Bits flipped, bytes replaced, pieces cut out, doubled and moved; or the end cut off.

    Most changes are within the first share `head` of the file, where the headers are.
    """
    data = bytearray(content)
    reach = len(data) if generator.random() < 0.3 else max(1, int(len(data) * head))
    start, other = generator.integers(reach, size=2).tolist()
    length = int(generator.integers(1, 60))
    kind = generator.integers(6)
    if kind == 0:
        for place in generator.integers(reach, size=int(generator.integers(1, 8))):
            data[place] ^= 1 << int(generator.integers(8))
    elif kind == 1:
        data[start : start + 4] = generator.bytes(4)
    elif kind == 2:
        del data[start : start + length]
    elif kind == 3:
        data[start:start] = data[start : start + length]
    elif kind == 4:
        data[start : start + length] = data[other : other + length]
    else:
        del data[start:]
    return bytes(data)


STRANGE = (None, True, "", "x" * 5000, -1, 0, 1e308, 10**40, [], {}, [[[[]]]], {"": None}, "\ud800")


def mutated_json(content, generator):
    """JSON in which one value, chosen at random, is replaced, removed or wrapped."""
    data = json.loads(content)
    places = []

    def visit(node):
        keys = (
            node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        )
        for key in keys:
            places.append((node, key))
            visit(node[key])

    visit(data)
    node, key = places[generator.integers(len(places))]
    kind = generator.integers(4)
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[key] = [node[key]]
    else:
        node[key] = STRANGE[generator.integers(len(STRANGE))]
    return json.dumps(data).encode()


def five_changed_bytes(content, generator, end, start=0):
    """Five bytes between `start` and `end` changed, as a failing disk or memory does."""
    data = bytearray(content)
    for place in generator.choice(end - start, 5, replace=False):
        data[start + place] ^= int(generator.integers(1, 256))
    return bytes(data)


_heard = []
_listening = []


def _hook(event, arguments):
    if _listening and event in DEEDS:
        _heard.append(f"{event} {arguments}")


@cache
def _install_hook():
    sys.addaudithook(_hook)  # once, because Python cannot remove a hook


@contextmanager
def nothing_happens():
    """Fail if the block starts a program, opens a connection, removes or renames a file."""
    _install_hook()
    _heard.clear()
    _listening.append(True)
    try:
        yield
    finally:
        _listening.pop()
    if _heard:
        raise AssertionError("; ".join(_heard))
