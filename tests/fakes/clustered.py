"""Tables and shards of pictures, and jobs with a slow fake predictor."""

import io
import tarfile
import time

import pyarrow as pa
from PIL import Image
from pyarrow import parquet
from tests.fakes.brightness import Brightness, picture

from idisc.cluster.job import Job
from idisc.cluster.pictures import DepthPredictor
from idisc.cluster.sources import list_parts
from idisc.predict.predictor import Predictor


class Slow(Brightness):
    """An engine that needs 20 ms per picture, so that tests can kill its worker."""

    def run(self, images, size=None):
        time.sleep(0.02)
        return super().run(images, size)


class Fake(DepthPredictor):
    """A predictor of metres from brightness."""

    def load(self, device):
        return Predictor(Slow())


def jpeg(shade):
    stream = io.BytesIO()
    Image.fromarray(picture(24, 32, shade)).save(stream, format="JPEG")
    return stream.getvalue()


def contents(count):
    """Pictures by key; every 50th is damaged."""
    return {f"photo{n:03d}": b"no picture" if n % 50 == 7 else jpeg(n) for n in range(count)}


def table(path, count, rows_of_group=64):
    """A Parquet file with a key, a label and the bytes of pictures."""
    found = contents(count)
    columns = {"key": list(found), "label": list(range(count)), "jpeg": list(found.values())}
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, row_group_size=rows_of_group)
    return path


def shard(path, count):
    """A WebDataset shard: a picture and a caption for each key."""
    with tarfile.open(path, "w") as archive:
        for key, content in contents(count).items():
            for name, data in ((f"{key}.jpg", content), (f"{key}.txt", b"a photo")):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return path


def job(source, destination, part_size=10, **fields):
    """A job over one source with the fake predictor."""
    return Job(
        parts=tuple(list_parts([str(source)], part_size=part_size)),
        destination=str(destination),
        predictor=Fake(),
        **fields,
    )


def written(folder):
    """All files of a destination, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
