"""A small folder of pictures and depth that a network can learn: brightness is nearness."""

import numpy as np
from PIL import Image

from idisc.configs.schema import (
    AfpConfig,
    AugmentConfig,
    DataConfig,
    DecoderConfig,
    ModelConfig,
    Recipe,
    TrainConfig,
)

SIZE = (48, 64)
TINY = ModelConfig(
    encoder="timm:test_efficientnet",
    decoder=DecoderConfig(width=32, layers=1, heads=2, points=2),
    afp=AfpConfig(idrs=8, width=16),
)
CHANGES = {  # the same from the command line
    "model.encoder": "timm:test_efficientnet",
    "model.decoder.width": 32,
    "model.decoder.layers": 1,
    "model.afp.idrs": 8,
    "model.afp.width": 16,
    "data.size": "48x64",
    "train.iterations": 4,
    "train.batch_size": 2,
    "train.validate_every": 2,
}


def command(data, out, *more, **changes):
    """The arguments of `idisc` that train a tiny network."""
    sets = [f"{name}={value}" for name, value in {**CHANGES, **changes}.items()]
    flags = [part for change in sets for part in ("--set", change)]
    return ["train", "nyu_swint", "--data", data, "--out", out, "--workers", 0, *flags, *more]


def recipe(**train):
    """A recipe of a few seconds; arguments change its training."""
    settings = {"iterations": 6, "batch_size": 2, "validate_every": 3, "save_every": 2}
    return Recipe(
        name="tiny",
        model=TINY,
        data=DataConfig(train="folder", test="folder", size=SIZE, augment=AugmentConfig()),
        train=TrainConfig(**{**settings, **train}),
    )


def make(root, train=6, test=2):
    """train/ and test/ with images/ and depth/ below each."""
    for split, count in (("train", train), ("test", test)):
        for index in range(count):
            generator = np.random.default_rng((index, split == "test"))
            depth = _depth(generator)
            shade = (255 * (1 - depth / 6)).clip(0, 255)
            image = np.stack([shade, shade * 0.8, 255 - shade], axis=-1).astype(np.uint8)
            _save(root / split / "images" / f"{index}.png", image)
            _save(root / split / "depth" / f"{index}.png", (1000 * depth).astype(np.uint16))
    return root


def write_table(root, **columns):
    """Write pairs.csv with the same values of more columns for every pair."""
    lines = [",".join(("image", "depth", "split", *columns))]
    for split in ("train", "test"):
        for path in sorted((root / split / "images").iterdir()):
            names = f"{split}/images/{path.name},{split}/depth/{path.name},{split}"
            lines.append(",".join((names, *map(str, columns.values()))))
    (root / "pairs.csv").write_text("\n".join(lines))


def _depth(generator):
    """A slanted wall with a round bulge, metres: smooth, as a map at a quarter of the size is."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] / SIZE[1]
    slope, middle = generator.uniform(-1, 1, size=2), generator.uniform(0.2, 0.6, size=2)
    distance = ((rows - middle[0]) ** 2 + (columns - middle[1]) ** 2) / 0.2**2
    bulge = generator.uniform(1, 2) * np.exp(-distance)
    return np.asarray(3.5 + slope[0] * rows + slope[1] * columns - bulge)


def _save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
