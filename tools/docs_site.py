"""A hook of the documentation site: formulas as MathML.

MkDocs calls `on_page_content` while it builds (`hooks` of mkdocs.yml). arithmatex marks formulas in
the page; here they become MathML, which browsers render without a script, a font or a network.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page by MathML."""
    return FORMULA.sub(_as_mathml, content)


def _as_mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    formula = convert(html.unescape(found[3]).strip(), display=display)
    return f"<{found[1]}>{formula}</{found[1]}>"
