"""Hooks of the documentation site: the help texts of all commands, and formulas as MathML.

MkDocs calls these functions while it builds (`hooks` of mkdocs.yml). arithmatex marks formulas in
the page; here they become MathML, which browsers render without a script, a font or a network.
"""

from __future__ import annotations

import html
import re
from typing import Any

import click
from latex2mathml.converter import convert

from idisc.cli.main import cli

COMMANDS_HERE = "<!-- commands -->"
OPEN_SOURCE = '<details class="mkdocstrings-source" open>'
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marker for the help texts of all commands."""
    return markdown.replace(COMMANDS_HERE, help_texts()) if COMMANDS_HERE in markdown else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page by MathML, and show source code without a click."""
    content = content.replace('<details class="mkdocstrings-source">', OPEN_SOURCE)
    return FORMULA.sub(_as_mathml, content)


def help_texts() -> str:
    """Return one section for each command, with the output of `idisc COMMAND --help`."""
    context = click.Context(cli, info_name="idisc", terminal_width=80, **cli.context_settings)
    sections = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None, name
        inner = click.Context(command, parent=context, info_name=name)
        sections.append(f"## idisc {name}\n\n```text\n{command.get_help(inner)}\n```\n")
    return "\n".join(sections)


def _as_mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    formula = convert(html.unescape(found[3]).strip(), display=display)
    return f"<{found[1]}>{formula}</{found[1]}>"
