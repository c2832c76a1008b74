"""A few cases of each kind in every run of the suite; `make fuzz` runs many."""

import numpy as np
import pytest
from tests.fuzz.kinds import KINDS

from idisc.errors import IdiscError

CASES = 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")  # of libraries, about damaged files
def test_damaged_input_is_accepted_or_refused_in_one_line(kind, tmp_path, capfd):
    case, refused = KINDS[kind](tmp_path), []
    for number in range(CASES):
        try:
            case(np.random.default_rng((1, number)))
        except IdiscError as error:
            refused.append(str(error))
    assert len(refused) > CASES // 4
    assert not any("\n" in text for text in refused)
    assert capfd.readouterr().out == ""
