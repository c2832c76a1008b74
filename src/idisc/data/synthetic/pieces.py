"""Furniture, fittings, houses, cars, trees and people, each a few shapes of usual sizes.

A piece stands in its own axes: x along the wall behind it, its back at y = 0, its front towards +y,
the floor at z = 0. `PIECES` states its parts in centimetres, as `material x y z`, each axis from
one end to the other. A `*` adds the mirror image at -x, a `?` leaves the part out of some copies,
and `@` or `|` make it a ball or an upright tube instead of a box.
"""

from __future__ import annotations

from idisc.data.synthetic.scenes import (
    Form,
    Generator,
    Material,
    Piece,
    Shape,
    paint,
    solid,
    textured,
    toned,
)

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
    " cloth* 1:73 20:87 28:43, thing? 30:68 22:34 43:78",
    "armchair": "cloth -46:46 0:80 6:42, cloth -46:46 0:22 42:85, cloth* 31:46 0:80 42:60",
    "bed": "body -75:75 0:6 0:100, body -75:75 6:205 5:28, white -73:73 6:203 28:48,"
    " cloth -76:76 65:206 25:52, white* 7:67 12:50 48:60",
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
    "door": "white -50:50 0:3 0:208, leaf -43:43 0:5 0:202, dark| 33:39 5:11 98:106",
    "window": "view -65:65 0:2 85:205, white -70:70 0:12 81:85, drape*? 53:77 3:10 10:215",
    "picture": "art -35:35 0:2.5 130:185",
    "car": "body -90:90 0:420 30:90, dark -80:80 40:290 90:146, body -80:80 40:290 146:150,"
    " body* 74:82 40:55 90:148, body* 74:82 160:170 90:148, body* 74:82 280:292 90:148,"
    " dark -91:91 -4:424 30:48, tail* 60:88 -2:5 65:80, white* 60:88 415:422 65:80,"
    " dark*@ 62:92 45:109 0:64, dark*@ 62:92 310:374 0:64",
    "tree": "wood| -16:16 -16:16 0:320, leaves@ -160:60 -120:100 240:460,"
    " leaves@ -70:150 -80:140 280:500, leaves?@ -110:110 -120:120 360:580",
    "street lamp": "dark| -7:7 -7:7 0:600, dark -7:140 -6:6 600:610",
    "person": "body*| 2:18 -8:8 0:83, cloth| -22:22 -15:15 83:148, skin@ -11:11 -12:12 146:172",
}
_FLAT = ("shade", "leaf", "view", "art")  # materials of things that cast no shadow


def make_piece(generator: Generator, name: str) -> Piece:
    """Return a copy of a piece in its own axes, in metres, stretched and coloured at random."""
    stretch = (generator.uniform(0.85, 1.2, 3) / 100).tolist()
    materials = _materials(generator)
    shapes: list[Shape] = []
    for part in PIECES[name].split(","):
        word, *axes = part.split()
        role = word.rstrip("*?@|")
        marks = set(word[len(role) :])
        if "?" in marks and generator.random() < 0.3:
            continue
        ends = [axis.split(":") for axis in axes]
        x, y, z = ((float(a) * f, float(b) * f) for (a, b), f in zip(ends, stretch, strict=True))
        for side in (x, (-x[1], -x[0])) if "*" in marks else (x,):
            form: Form = "ball" if "@" in marks else "tube" if "|" in marks else "box"
            shapes.append(solid(side, y, z, materials[role], form, shadow=role not in _FLAT))
    return tuple(shapes)


def wood(generator: Generator, scale: float = 0.25) -> Material:
    """Light birch to dark oak."""
    colour = paint(generator, (0.06, 0.11), (0.3, 0.7), (0.35, 0.85))
    return textured(generator, "planks", scale, colour, 0.45)


def cloth(generator: Generator) -> Material:
    """Covers, cushions, carpets."""
    colour = paint(generator, saturation=(0.1, 0.8), value=(0.25, 0.9))
    choices = ("rough", 0.04), ("plaid", 0.15), ("stripes", 0.12)
    texture, scale = choices[int(generator.choice(3, p=(0.7, 0.15, 0.15)))]
    return textured(generator, texture, scale, colour, 0.6)


def _materials(generator: Generator) -> dict[str, Material]:
    """Materials of one piece by role; its body is wood, or white, grey or coloured lacquer."""
    strong = generator.random() < 0.4
    saturation, value = ((0.4, 0.9), (0.2, 0.8)) if strong else ((0, 0.15), (0.1, 0.95))
    colour = paint(generator, saturation=saturation, value=value)
    body = wood(generator) if generator.random() < 0.5 else Material(colour=colour)
    dark, pale = (0.01, 0.01, 0.012), paint(generator, saturation=(0, 0.1), value=(0.7, 0.95))
    any_colour = paint(generator, value=(0.3, 0.9))
    green = paint(generator, (0.17, 0.36), (0.4, 0.8), (0.25, 0.65))
    brown = paint(generator, (0.07, 0.1), (0.3, 0.5), (0.5, 0.75))
    warm = paint(generator, (0.08, 0.15), (0.05, 0.3), (0.9, 1.0))
    day = paint(generator, (0.55, 0.62), (0.0, 0.3), (0.9, 1.0))
    return {
        "body": body,
        "doors": textured(generator, "panels", 0.5, body.colour, 0.3),
        "thing": Material(colour=any_colour),
        "cloth": cloth(generator),
        "wood": wood(generator),
        "white": Material(colour=pale),
        "dark": Material(colour=dark),
        "books": textured(generator, "books", 0.04, (0.8, 0.8, 0.8), toned(body.colour, 0.5)),
        "screen": textured(generator, "picture", 1.0, any_colour, dark, glow=0.8),
        "leaves": textured(generator, "rough", generator.uniform(0.12, 0.5), green, 0.15),
        "carton": textured(generator, "panels", 2.0, brown, 0.4),
        "shade": Material(colour=warm, glow=1.2),
        "tail": Material(colour=(0.5, 0.01, 0.01), glow=0.3),
        "skin": Material(colour=paint(generator, (0.04, 0.08), (0.3, 0.6), (0.35, 0.9))),
        "leaf": textured(generator, "panels", 2.0, colour, 0.4),
        "view": textured(generator, "picture", 0.6, day, toned(pale, 0.35), glow=1.6),
        "drape": textured(generator, "stripes", 0.1, any_colour),
        "art": textured(generator, "picture", 2.0, any_colour, colour),
    }
