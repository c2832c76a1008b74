"""The released checkpoints; tests/model/test_convert.py computes their sizes."""

from collections import Counter

from idisc.configs.recipes import PUBLISHED_RECIPES
from idisc.zoo.published import PUBLISHED


def test_every_recipe_has_exactly_one_file():
    assert len(PUBLISHED) == 13
    made = Counter(name for entry in PUBLISHED.values() for name in entry.recipes)
    assert made == Counter(recipe.name for recipe in PUBLISHED_RECIPES)
