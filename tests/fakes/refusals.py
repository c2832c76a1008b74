"""Assertions about errors: their type and fields, not their wording."""

from contextlib import contextmanager

import pytest

from idisc.errors import IdiscError


@contextmanager
def refused(kind, subject, *facts):
    """Expect an error of one line with this type and subject; reason or remedy state the facts."""
    with pytest.raises(IdiscError) as caught:
        yield
    error = caught.value
    assert (type(error), error.subject) == (kind, str(subject)), str(error)
    assert "\n" not in str(error)
    for fact in facts:
        assert str(fact) in f"{error.reason}; {error.remedy}"
