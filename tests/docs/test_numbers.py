"""The numbers of the shipped models in the README are those of their cards."""

import re
from pathlib import Path

from idisc.zoo import cards

README = Path(__file__).parents[2] / "README.md"
METRICS = {
    "d1": "d1",
    "AbsRel": "abs_rel",
    "RMSE": "rmse",
    "within 11.25 deg": "a11.25",
    "mean angle": "mean_deg",
}


def test_the_readme_states_the_scores_of_the_cards():
    shipped, stated, header = cards.shipped(), set(), list[str]()
    for row in README.read_text().splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if row.startswith("|") and "model" in cells:
            header = cells
        found = re.match(r"\| .*?\| `(\w+)`.* ships", row)
        if not found:
            continue
        stated.add(found[1])
        scores = {score.metric: score.value for score in shipped[found[1]].scores}
        for title, cell in zip(header, cells, strict=True):
            if title in METRICS:
                number = re.sub(r"[^\d.]", "", cell)
                decimals = len(number.partition(".")[2])
                assert f"{scores[METRICS[title]]:.{decimals}f}" == number, (found[1], title)
    assert stated == set(shipped)
