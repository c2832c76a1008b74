"""Furniture, fittings, houses, cars, trees and people, each a few shapes of usual sizes.

A piece stands in its own axes: x along the wall behind it, its back at y = 0, its front towards +y,
the floor at z = 0. `PIECES` states its parts in centimetres, as `material x y z`, each axis from
one end to the other. A `*` adds the mirror image at -x, a `?` leaves the part out of some copies,
and `@` or `|` make it a ball or an upright tube instead of a box.
"""

from __future__ import annotations

from idisc.data.synthetic.materials import FINISHES, make_material
from idisc.data.synthetic.scene import Form, Generator, Shape, solid

PIECES = {
    "chair": "body -22:22 0:44 43:47, body -22:22 0:4 60:90, body* 18:22 0:4 0:90,"
    " body* 18:22 40:44 0:43",
    "table": "body -70:70 0:80 70:74, body* 61:67 2:8 0:70, body* 61:67 72:78 0:70,"
    " cloth? -40:-15 20:40 74:80, thing|? 20:30 40:50 74:95, thing?@ -5:10 50:65 74:89",
    "coffee table": "body -50:50 0:60 38:42, body* 40:48 5:55 0:38, cloth? -30:0 15:40 42:47,"
    " thing|? 15:25 25:35 42:60",
    "desk": "body -70:70 0:70 70:74, body* 66:70 0:68 0:70, dark -28:28 15:18.5 86:120,"
    " screen -26:26 18:19 88:118, dark -10:10 12:22 74:86, thing|? 40:48 30:38 74:90",
    "sofa": "cloth -90:90 0:85 6:28, cloth -90:90 0:22 28:80, cloth* 74:90 0:85 28:60,"
    " cloth* 1:73 20:87 28:43, stripes? 30:68 22:34 43:78",
    "armchair": "cloth -46:46 0:80 6:42, cloth -46:46 0:22 42:85, cloth* 31:46 0:80 42:60",
    "bed": "body -75:75 0:6 0:100, body -75:75 6:205 5:28, white -73:73 6:203 28:48,"
    " stripes -76:76 65:206 25:52, white* 7:67 12:50 48:60",
    "bookcase": "body* 43:45 0:30 0:175, body -45:45 0:2 0:175, body -45:45 2:30 0:3,"
    " books -43:10 2:22 3:35, body -45:45 2:30 43:45, books -43:43 2:24 45:77,"
    " body -45:45 2:30 86:88, books -43:43 2:24 88:120, body -45:45 2:30 129:131,"
    " books? -43:20 2:22 131:160, body -45:45 0:30 172:175",
    "wardrobe": "body -70:70 0:55 0:200, doors -69:69 55:56 5:198",
    "dresser": "body -60:60 0:42 0:80, doors -59:59 42:43 4:78, thing|? -40:-28 15:27 80:105,"
    " thing?@ 20:40 10:30 80:100",
    "television": "body -80:80 0:42 0:45, doors -79:79 42:43 3:43, dark -50:50 15:20 52:110,"
    " dark -15:15 12:28 45:52",
    "kitchen": "body -120:120 0:58 0:87, doors -119:119 58:59 8:85, thing -122:122 0:62 87:91,"
    " body -120:120 0:34 145:200, doors -119:119 34:35 146:199, white|? 40:50 20:30 91:115,"
    " dark? -70:-40 10:40 91:105",
    "fridge": "white -30:30 0:62 0:175, dark -30:30 61:62.5 115:116, dark 22:25 62:66 80:110",
    "lamp": "dark| -16:16 4:36 0:3, dark| -2:2 18:22 0:140, shade| -20:20 0:40 130:160",
    "plant": "thing| -16:16 9:41 0:32, leaves@ -28:12 10:45 30:75, leaves@ -10:30 5:40 35:85,"
    " leaves?@ -20:20 10:45 60:110",
    "cartons": "carton -30:30 0:50 0:42, carton? -20:16 10:45 42:68, carton? 34:60 10:40 0:25",
    "door": "white -50:50 0:3 0:208, doors -43:43 0:5 0:202, dark| 33:39 5:11 98:106",
    "window": "view -65:65 0:2 85:205, white -70:70 0:12 81:85, stripes*? 53:77 3:10 10:215",
    "picture": "art -35:35 0:2.5 130:185",
    "car": "colour -90:90 0:420 30:90, dark -80:80 40:290 90:146, colour -80:80 40:290 146:150,"
    " colour* 74:82 40:55 90:148, colour* 74:82 160:170 90:148, colour* 74:82 280:292 90:148,"
    " dark -91:91 -4:424 30:48, tail* 60:88 -2:5 65:80, white* 60:88 415:422 65:80,"
    " dark*@ 62:92 45:109 0:64, dark*@ 62:92 310:374 0:64",
    "tree": "wood| -16:16 -16:16 0:320, leaves@ -160:60 -120:100 240:460,"
    " leaves@ -70:150 -80:140 280:500, leaves?@ -110:110 -120:120 360:580",
    "street lamp": "dark| -7:7 -7:7 0:600, dark -140:7 -6:6 600:610",
    "person": "colour*| 2:18 -8:8 0:83, cloth| -22:22 -15:15 83:148, skin@ -11:11 -12:12 146:172",
    "house": "facade 0:1100 0:1200 0:900, brick -5:1100 0:1200 0:60, doors -6:100 500:610 0:220,"
    " roof -40:1140 -10:1210 900:940, roof? 120:900 80:1120 940:1120,"
    " facade? -110:100 700:940 300:870",
    "tower": "facade 0:1100 0:1200 0:1600, slabs -5:1100 0:1200 0:60, doors -6:100 300:500 0:250,"
    " roof -30:1100 0:1200 1600:1640, facade? -110:100 700:940 300:1500",
}
_CHOICES = {"body": ("wood", "lacquer", "colour"), "thing": ("colour", "lacquer")}


def make_piece(generator: Generator, name: str) -> list[Shape]:
    """Return a copy of a piece in its own axes, in metres, stretched and coloured at random."""
    stretch = (generator.uniform(0.85, 1.2, 3) / 100).tolist()
    materials = {role: make_material(generator, *names) for role, names in _CHOICES.items()}
    shapes: list[Shape] = []
    for part in PIECES[name].split(","):
        word, *axes = part.split()
        role = word.rstrip("*?@|")
        marks = set(word[len(role) :])
        if role in FINISHES and role not in materials:
            materials[role] = make_material(generator, role)
        if "?" in marks and generator.random() < 0.3:
            continue
        ends = [axis.split(":") for axis in axes]
        x, y, z = ((float(a) * f, float(b) * f) for (a, b), f in zip(ends, stretch, strict=True))
        form: Form = "ball" if "@" in marks else "tube" if "|" in marks else "box"
        for side in (x, (-x[1], -x[0])) if "*" in marks else (x,):
            shapes.append(solid(side, y, z, materials[role], form))
    return shapes
