"""The rules of docs/architecture.md that a syntax tree can tell, and a breach of each."""

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

import idisc

ROOT = Path(idisc.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
# Layer 0 in the order of the page: each file may import those above it.
FOUNDATION = [
    "errors",
    "executors",
    "files",
    "checksums",
    "sizes",
    "metrics",
    "averages",
    "magma",
    "visualize",
    "tasks",
    "configs",
    "camera",
    "ancestry",
    "geometry",
    "alignment",
    "images",
]
FOUNDATION += ["html_parts", "charts", "provenance", "prediction", "scale", "provenance_text"]
FOUNDATION += ["formats", "__init__"]
LAYERS = {
    **dict.fromkeys(FOUNDATION, 0),
    **dict.fromkeys(("data", "zoo", "model"), 1),
    "predict": 2,
    **dict.fromkeys(("evaluate", "export", "explain"), 3),
    **dict.fromkeys(("train", "serve", "cluster", "bench"), 4),
    **dict.fromkeys(("cli", "__main__"), 5),
}
HEAVY = {"torch", "torchvision", "timm", "safetensors", "onnxruntime", "scipy", "h5py", "numba"}
HEAVY |= {"av", "trimesh", "cmap", "matplotlib", "fastapi", "rich", "ray", "pyarrow"}
TORCH_PARTS = {"model", "export", "explain", "train", "bench"}
TORCH = frozenset({"torch", "safetensors"})
OWNED = {  # heavy packages that a part, or one file of it, may import at module top
    **dict.fromkeys(("model", "bench"), TORCH),
    "train": TORCH | {"timm", "torchvision"},
    **dict.fromkeys(("export", "explain", "predict/torch_engine.py"), frozenset({"torch"})),
    "model/sampling_kernel.py": frozenset({"numba"}),
    "serve": frozenset({"fastapi"}),
    "cluster": frozenset({"ray", "pyarrow"}),
}
POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
MAX_FILE, MAX_FUNCTION = 400, 50
VAGUE_FILES = {"utils", "util", "helpers", "helper", "misc", "common", "base"}
VAGUE_CLASSES = re.compile(r"(Manager|Factory|Handler)$|^Abstract|^Base[A-Z]")
SILENCE = ("pass", "...", "continue", "return", "return None")
SLASH = "/"  # apart, so that this file itself names no folder of a machine
MACHINE = re.compile(r"(?<![\w/.~-])/(?:work|root|home|Users)(?:/|\b)")


@dataclass(frozen=True)
class Import:
    module: str
    name: str  # "" for `import module`
    top: bool  # runs when the file is imported: neither in a function nor for types only

    @property
    def package(self):
        return self.module.partition(".")[0]

    @property
    def part(self):
        """The top-level part of idisc that is imported; "" for other packages."""
        if self.package != "idisc":
            return ""
        first = (self.module.split(".")[1:] or [self.name])[0]
        return first if first in LAYERS else "__init__"


@dataclass(frozen=True)
class Source:
    path: str  # below idisc/
    text: str

    @cached_property
    def tree(self):
        return ast.parse(self.text)

    @property
    def part(self):
        first = self.path.partition("/")[0]
        return first.removesuffix(".py")

    @property
    def owned(self):
        return OWNED.get(self.part, frozenset()) | OWNED.get(self.path, frozenset())

    @cached_property
    def imports(self):
        return list(self._imports(self.tree, top=True))

    def _imports(self, node, top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, "", top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                module = self._absolute(child)
                yield from (Import(module, alias.name, top) for alias in child.names)
            elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                yield from self._imports(child, top=False)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from self._imports(child, top and not inside)

    def _absolute(self, node):
        if not node.level:
            return node.module or ""
        package = ["idisc", *self.path.split("/")[:-1]]
        parents = package[: len(package) - node.level + 1]
        return ".".join([*parents, *filter(None, [node.module])])

    def nodes(self, *kinds):
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def imports_point_down(source):
    if source.part not in LAYERS:
        yield f"{source.part} has no layer; add it to docs/architecture.md and to LAYERS"
        return
    layer = LAYERS[source.part]
    loaded = {found.part for found in source.imports if found.top}  # a method may import later
    for part in sorted({found.part for found in source.imports} - {"", source.part}):
        if LAYERS[part] > layer:
            yield f"imports {part}, which is above it"
        elif LAYERS[part] == layer == 0:
            if part in loaded and FOUNDATION.index(part) > FOUNDATION.index(source.part):
                yield f"imports {part}, which is below it in layer 0"
        elif LAYERS[part] == layer and source.part != "__main__":
            yield f"imports its neighbour {part}"
        elif part == "model" and layer == 2 and source.path != "predict/torch_engine.py":
            yield "imports model, which is for torch_engine.py alone"


def private_names_stay_in_their_part(source):
    modules = {found.name for found in source.imports if found.part not in ("", source.part)}
    for found in source.imports:
        names = [*found.module.split("."), found.name]
        if found.part not in ("", source.part) and any(map(is_private, names)):
            yield f"imports {'.'.join(filter(None, names))}"
    for node in source.nodes(ast.Attribute):
        inner = node.value
        if isinstance(inner, ast.Name) and inner.id in modules and is_private(node.attr):
            yield f"uses {inner.id}.{node.attr}"


def heavy_packages_are_imported_by_their_owners(source):
    for package in sorted({found.package for found in source.imports if found.top} & HEAVY):
        if package not in source.owned:
            yield f"imports {package} at module top"
    parts = {found.part for found in source.imports if found.top} - {source.part}
    if "torch" not in source.owned:
        yield from (f"imports {part}, and so torch, at module top" for part in parts & TORCH_PARTS)
    if source.part == "cli":
        above = sorted(part for part in parts - TORCH_PARTS if LAYERS.get(part, 0) > 1)
        yield from (f"imports {part} at module top" for part in above)


def modules_of_one_system_are_optional(source):
    for found in source.imports:
        if found.package in POSIX and (found.top or source.part not in ("train", "bench")):
            yield f"imports {found.package}, which Windows does not have"


def only_the_command_line_prints(source):
    for node in source.nodes(ast.Call):
        called = ast.unparse(node.func)
        if called in ("print", "sys.stdout.write", "sys.stderr.write"):
            yield f"calls {called}"
        if called in ("click.echo", "click.secho", "echo", "Console") and source.part != "cli":
            yield f"calls {called} outside of cli"


def files_and_functions_are_short(source):
    lines = len(source.text.splitlines())
    if lines > MAX_FILE:
        yield f"{lines} lines"
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        lines = (node.end_lineno or 0) - node.body[0].lineno + 1  # without its arguments
        if lines > MAX_FUNCTION:
            yield f"{node.name} has {lines} lines"


def names_say_something(source):
    for part in source.path.removesuffix(".py").split("/"):
        if VAGUE_FILES & set(part.strip("_").split("_")):
            yield f"{part} says nothing"
    for node in source.nodes(ast.ClassDef):
        if VAGUE_CLASSES.search(node.name):
            yield f"class {node.name} says nothing"


def errors_are_not_swallowed(source):
    for node in source.nodes(ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else ""
        if not caught:
            yield "bare except"
        elif re.search(r"\b(Base)?Exception\b", caught) and ast.unparse(node.body[0]) in SILENCE:
            yield f"except {caught}: {ast.unparse(node.body[0])}"
    for node in source.nodes(ast.Call):
        if re.search(r"\bsuppress\(.*\b(Base)?Exception\b", ast.unparse(node)):
            yield ast.unparse(node)


def public_things_have_docstrings(source):
    if not ast.get_docstring(source.tree):
        yield "the module has no docstring"
    for node in source.tree.body:
        named = isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if named and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{node.name} has no docstring"


def no_path_of_a_machine(source):
    for number, line in enumerate(source.text.splitlines(), 1):
        if MACHINE.search(line):
            yield f"line {number} names a folder of one machine"


def weights_are_read_strictly(source):
    for node in source.nodes(ast.Call):
        called = ast.unparse(node.func)
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called == "torch.load" and given.get("weights_only") != "True":
            yield "torch.load without weights_only=True"
        if called.endswith("load_state_dict") and given.get("strict", "True") != "True":
            yield "a load that is not strict"


RULES = [
    imports_point_down,
    private_names_stay_in_their_part,
    heavy_packages_are_imported_by_their_owners,
    modules_of_one_system_are_optional,
    only_the_command_line_prints,
    files_and_functions_are_short,
    names_say_something,
    errors_are_not_swallowed,
    public_things_have_docstrings,
    no_path_of_a_machine,
    weights_are_read_strictly,
]


@cache
def sources():
    paths = sorted(ROOT.rglob("*.py"))
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


@pytest.mark.parametrize("rule", RULES)
def test_the_whole_package_follows(rule):
    assert [f"{source.path}: {fault}" for source in sources() for fault in rule(source)] == []


def test_the_package_was_found():
    found = {source.path for source in sources()}
    assert {"errors.py", "model/network.py", "cli/main.py", "__main__.py"} <= found


def test_the_page_names_every_module_and_orders_layer_0():
    tree = PAGE.read_text("utf-8").partition("    src/idisc/\n")[2].partition("    benchmarks/")[0]
    sections = {
        found[1]: found[0] for found in re.finditer(r"^ {6}(\w+)\b.*\n(?: {7}.*\n)*", tree, re.M)
    }
    named = {(part, name) for part in sections for name in re.findall(r"\w+\.py", sections[part])}
    modules = {(source.part, source.path.rpartition("/")[2]) for source in sources()}
    assert named == {
        (part, name) for part, name in modules if name != "__init__.py" or part == "__init__"
    }
    assert list(sections)[: len(FOUNDATION)] == FOUNDATION


LONG_FUNCTION = "def long():\n" + "    x = 1\n" * 51
MODEL = "from idisc.model.network import IDisc"
NUMBA = "try:\n    import numba\nexcept ImportError:\n    numba = None"
BROKEN = {
    imports_point_down: [
        ("attic.py", "", "attic has no layer; add it to docs/architecture.md and to LAYERS"),
        ("files.py", "from idisc import configs", "imports configs, which is below it in layer 0"),
        ("configs/parsing.py", f"def f():\n    {MODEL}", "imports model, which is above it"),
        ("data/masks.py", "from ..zoo import published", "imports its neighbour zoo"),
        ("train/loop.py", "import idisc.serve.app", "imports its neighbour serve"),
        ("train/loop.py", "from idisc import bench", "imports its neighbour bench"),
        ("predict/tiles.py", MODEL, "imports model, which is for torch_engine.py alone"),
    ],
    private_names_stay_in_their_part: [
        ("cli/bench.py", "from idisc.bench import _parts", "imports idisc.bench._parts"),
        ("cli/bench.py", "from idisc import bench\nbench._parts()", "uses bench._parts"),
    ],
    heavy_packages_are_imported_by_their_owners: [
        ("metrics.py", "import scipy.stats", "imports scipy at module top"),
        ("model/sampling.py", NUMBA, "imports numba at module top"),
        ("evaluate/run.py", MODEL, "imports model, and so torch, at module top"),
        ("cli/bench.py", "from rich.table import Table", "imports rich at module top"),
        ("cli/serve.py", "from idisc.serve import app", "imports serve at module top"),
    ],
    modules_of_one_system_are_optional: [
        ("train/state.py", "import fcntl", "imports fcntl, which Windows does not have"),
        ("files.py", "def f():\n    import pwd", "imports pwd, which Windows does not have"),
    ],
    only_the_command_line_prints: [
        ("cli/bench.py", "print('done')", "calls print"),
        ("train/log.py", "click.echo('done')", "calls click.echo outside of cli"),
    ],
    files_and_functions_are_short: [
        ("files.py", "x = 1\n" * 401, "401 lines"),
        ("files.py", LONG_FUNCTION, "long has 51 lines"),
    ],
    names_say_something: [
        ("data/io_utils.py", "", "io_utils says nothing"),
        ("common/files.py", "", "common says nothing"),
        ("files.py", "class FileManager: ...", "class FileManager says nothing"),
    ],
    errors_are_not_swallowed: [
        ("files.py", "try: f()\nexcept: g()", "bare except"),
        ("files.py", "try: f()\nexcept Exception: pass", "except Exception: pass"),
        ("files.py", "try: f()\nexcept (A, Exception): ...", "except (A, Exception): ..."),
        ("files.py", "with suppress(Exception): f()", "suppress(Exception)"),
    ],
    public_things_have_docstrings: [
        ("files.py", "x = 1", "the module has no docstring"),
        ("files.py", "'A.'\ndef f(): ...\ndef _g(): ...", "f has no docstring"),
        ("files.py", "'A.'\nclass C: ...", "C has no docstring"),
    ],
    no_path_of_a_machine: [
        ("files.py", f"x = 1\nFOLDER = '{SLASH}root/data'", "line 2 names a folder of one machine"),
        ("files.py", f"# as in {SLASH}work/main", "line 1 names a folder of one machine"),
    ],
    weights_are_read_strictly: [
        ("model/states.py", "torch.load(path)", "torch.load without weights_only=True"),
        ("train/state.py", "n.load_state_dict(s, strict=False)", "a load that is not strict"),
    ],
}
EXAMPLES = [(rule, *example) for rule, examples in BROKEN.items() for example in examples]


@pytest.mark.parametrize(("rule", "path", "text", "fault"), EXAMPLES)
def test_a_broken_rule_is_reported(rule, path, text, fault):
    assert list(rule(Source(path, text))) == [fault]


def test_every_rule_has_a_broken_example():
    assert list(BROKEN) == RULES
