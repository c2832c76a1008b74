"""Write sbom.cdx.json: what the wheel contains besides this project's own code (CycloneDX 1.6).

    python tools/sbom.py

Weights, photos and three.js are listed with their licence and SHA-256. The wheel carries the list
in its metadata; a test compares it with the files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idisc.zoo import cards

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/idisc"
OUT = ROOT / "sbom.cdx.json"


@dataclass(frozen=True)
class Part:
    """Files of the package that are not source code of this project."""

    pattern: str  # below the package
    kind: str  # of CycloneDX
    licence: str  # SPDX expression, or a name
    origin: str
    version: str = ""


PARTS = (
    Part("assets/three.min.js", "library", "MIT", "https://threejs.org", "0.187.0"),
    Part(
        "zoo/models/dinov2_vits14.safetensors",
        "machine-learning-model",
        "Apache-2.0",
        "https://github.com/facebookresearch/dinov2",
    ),
    *(
        Part(
            f"zoo/models/{card.name}.*", "machine-learning-model", card.licence, "trained by idisc"
        )
        for card in cards.shipped().values()
    ),
    Part("zoo/scene.json", "machine-learning-model", "Apache-2.0", "trained by idisc"),
    Part("assets/examples/bedroom.jpg", "data", "CC0-1.0", "https://pxhere.com/en/photo/607447"),
    Part("assets/examples/kitchen.jpg", "data", "CC0-1.0", "https://pxhere.com/en/photo/945420"),
    Part(
        "assets/examples/living_room.jpg", "data", "CC0-1.0", "https://pxhere.com/en/photo/1367038"
    ),
    Part(
        "assets/examples/street.jpg",
        "data",
        "BSD-2-Clause",
        "https://github.com/mapillary/OpenSfM",
    ),
    Part(
        "assets/examples/waiting_room.jpg",
        "data",
        "CC-BY-4.0",
        "https://commons.wikimedia.org/wiki/File:A_waiting_room_at_a_medical_healthcare_clinic,"
        "_doctor's_office,_hospital.jpg",
    ),
)


def components() -> list[dict[str, Any]]:
    """Return one component for each file of PARTS."""
    return [_component(part, path) for part in PARTS for path in sorted(PACKAGE.glob(part.pattern))]


def _component(part: Part, path: Path) -> dict[str, Any]:
    name = path.relative_to(PACKAGE.parent).as_posix()
    spdx = " " not in part.licence
    licence = {"id": part.licence} if spdx else {"name": part.licence}
    return {
        "type": part.kind,
        "bom-ref": name,
        "name": name,
        **({"version": part.version} if part.version else {}),
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"license": licence}],
        "properties": [{"name": "idisc:origin", "value": part.origin}],
    }


def document() -> str:
    """Return the list as text; it has no date, so the same files give the same text."""
    record = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "idisc", "bom-ref": "idisc"}},
        "components": components(),
    }
    return json.dumps(record, indent=1) + "\n"


if __name__ == "__main__":
    OUT.write_text(document(), encoding="utf-8")
