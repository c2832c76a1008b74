"""The commands of README and docs/ exist, and those that are cheap are run.

Every `idisc ...` line of a code block is parsed by the command line itself, so that an option that
was renamed is found. A line after `$` in a `console` block is run as well, in the order of its
page; where lines follow that the command has printed, they must be what it prints, apart from
numbers. `test_stand_ins.py` runs the other lines with small data, apart from a list with reasons.
"""

import ast
import importlib
import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from PIL import Image
from tests.fakes.films import room, write_clip

from idisc.cli.main import COMMANDS, cli, main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "src/idisc/assets/examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4,}\S.*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A line of a page, and what the page says it prints."""

    page: str
    line: str
    printed: tuple[str, ...] = ()

    @property
    def words(self):
        """The words after `idisc`, without a comment and the shell's redirections."""
        words = shlex.split(self.line.replace("[", "").replace("]", ""), comments=True)[1:]
        ends = [at for at, word in enumerate(words) if word in ("<", ">", "|", "&&")]
        return words[: min(ends, default=len(words))]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def consoles(page):
    """The commands of `console` blocks."""
    for kind, text in FENCE.findall(page.read_text()):
        if kind == "console":
            for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *printed = block.splitlines()
                yield Command(name_of(page), line, tuple(printed))


def plain_commands(page):
    """The commands of all other code blocks."""
    text = page.read_text()
    blocks = [body for kind, body in FENCE.findall(text) if kind not in ("console", "python")]
    blocks += INDENTED.findall(FENCE.sub("", text))
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ )?(?:torchrun .* -m )?(idisc \w.*)", line)
            if found and found[1].split()[1] in COMMANDS:
                yield Command(name_of(page), found[1])


def check(command):
    """Parse a line without running it; options and their choices must exist."""
    name, *arguments = command.words
    found = cli.get_command(click.Context(cli), name)
    assert found is not None, command
    arguments = [word for word in arguments if word != "..."]
    context = click.Context(found, info_name=name)
    try:
        values, _, _ = found.make_parser(context).parse_args(arguments)
        for option in found.params:
            if isinstance(option.type, click.Choice) and isinstance(values.get(option.name), str):
                option.type.convert(values[option.name], option, context)
    except click.UsageError as error:
        pytest.fail(f"{command.page}: {command.line}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_can_be_parsed(page):
    for command in [*consoles(page), *plain_commands(page)]:
        check(command)


def test_an_option_that_does_not_exist_is_found():
    for line in ("idisc predict room.jpg --known 3", "idisc predict a.jpg --precision fp8"):
        with pytest.raises(pytest.fail.Exception):
            check(Command("page", line))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    with Image.open(EXAMPLES / "living_room.jpg") as photo:
        photo.resize((640, 384)).save("room.jpg")
    Path("photos").mkdir()
    for name in ("kitchen", "street"):
        shutil.copy(EXAMPLES / f"{name}.jpg", "photos")
    return tmp_path


def run(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command.words)
    stdout, stderr = capsys.readouterr()
    assert end.value.code == 0, f"{command.line}: {stderr}"
    if command.printed:
        assert shape_of(stdout) == shape_of("\n".join(command.printed)), command.line


def shape_of(text):
    """A text without what differs from one processor to another: numbers, and spaces."""
    return [re.sub(r"\d+(?:\.\d+)?", "#", line).strip() for line in text.strip().splitlines()]


def run_python(page):
    """Run the blocks of a tutorial one after the other, as a reader would."""
    names = {"__name__": "page"}
    for kind, text in FENCE.findall(page.read_text()):
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/photo.md"])
def test_pages_about_photos_are_run(page, desk, capsys):
    for command in consoles(ROOT / page):
        run(command, capsys)
    run_python(ROOT / page)


@pytest.mark.slow
def test_the_page_about_videos_is_run(desk, capsys):
    pytest.importorskip("av", reason="videos need the extra video")
    write_clip(Path("clip.mp4"), [room(seed, (96, 128)) for seed in (0, 0, 1, 1)])
    for command in consoles(ROOT / "docs/tutorials/video.md"):
        run(command, capsys)
    run_python(ROOT / "docs/tutorials/video.md")


@pytest.mark.slow
def test_the_page_about_own_data_is_run(desk, capsys):
    for command in consoles(ROOT / "docs/tutorials/own_data.md"):
        run(command, capsys)


def test_the_network_beside_the_paper_is_run():
    pytest.importorskip("torch", reason="the network needs the extra train")
    run_python(ROOT / "docs/tutorials/paper.md")


def test_the_install_page_lists_every_extra_of_a_user():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/install.md").read_text(), flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert listed == set(project["optional-dependencies"]) - {"dev"}


def test_scripts_and_make_targets_of_the_pages_exist():
    text = "\n".join(page.read_text() for page in PAGES)
    scripts = set(re.findall(r"python ((?:docs/examples|benchmarks|tools)/\w+\.py)", text))
    targets = set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, flags=re.MULTILINE))
    assert scripts
    assert [script for script in scripts if not (ROOT / script).exists()] == []
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert targets <= set(phony.split())


def test_python_blocks_import_what_exists():
    pytest.importorskip("torch", reason="some blocks use the network")
    blocks = [
        text for page in PAGES for kind, text in FENCE.findall(page.read_text()) if kind == "python"
    ]
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("idisc"):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, each.name) for each in node.names), ast.unparse(node)


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
