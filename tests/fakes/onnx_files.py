"""Small ONNX files whose predictions are known, in the text form of ONNX."""

import onnx
from onnx import helper, parser

from idisc import checksums

_GREY = "bytes = Cast <to = 1> (image) grey = ReduceMean <axes = [3], keepdims = 0> (bytes)"


def depth_of_brightness(path, *, every=1, weights_at=""):
    """depth = 0.5 m + brightness / 50, of every n-th pixel of the image.

    With `weights_at`, the graph refers to another file for its first constant.
    """
    graph = f"""(uint8[B, H, W, 3] image) => (float[B, h, w] depth)
    <float fifty = {{50}}, float half = {{0.5}}, int64[2] first = {{0, 0}},
     int64[2] last = {{1073741824, 1073741824}}, int64[2] axes = {{1, 2}},
     int64[2] steps = {{{every}, {every}}}> {{
        {_GREY}
        scaled = Div (grey, fifty)
        full = Add (scaled, half)
        depth = Slice (full, first, last, axes, steps)
    }}"""
    model = _parsed(graph)
    if weights_at:
        constant = model.graph.initializer[0]
        constant.ClearField("float_data")
        constant.data_location = onnx.TensorProto.EXTERNAL
        constant.external_data.add(key="location", value=weights_at)
    return _write(path, model)


def with_metadata(content, key, value):
    """The bytes of a graph with one more entry of its metadata."""
    entry = onnx.ModelProto()
    entry.metadata_props.add(key=key, value=value)
    return content + entry.SerializeToString()  # fields of a message may be appended


def depth_and_spread(path):
    """depth = brightness / 50 in metres, and a tenth of it as the deviation of the levels."""
    graph = f"""(uint8[B, H, W, 3] image) => (float[B, H, W] depth, float[B, H, W] level_std)
    <float fifty = {{50}}, float ten = {{10}}> {{
        {_GREY}
        depth = Div (grey, fifty)
        level_std = Div (depth, ten)
    }}"""
    return _write(path, _parsed(graph))


def mean_depth_at_size(path):
    """One depth everywhere, the mean of all bytes in metres, at the requested size."""
    graph = f"""(uint8[B, H, W, 3] image, int64[2] size) => (float[B, h, w] depth)
    <int64[1] one = {{1}}> {{
        {_GREY}
        mean = ReduceMean <axes = [1, 2], keepdims = 1> (grey)
        shape = Concat <axis = 0> (one, size)
        depth = Expand (mean, shape)
    }}"""
    return _write(path, _parsed(graph))


def normals_of_colour(path):
    """normals = colour / 127.5 - 1."""
    graph = """(uint8[B, H, W, 3] image) => (float[B, H, W, 3] normals)
    <float half = {127.5}, float one = {1}> {
        bytes = Cast <to = 1> (image)
        scaled = Div (bytes, half)
        normals = Sub (scaled, one)
    }"""
    return _write(path, _parsed(graph))


def foreign(path, names=("0", "350"), shape=(1, 3, 224, 224), axis=1):
    """Somebody else's network, as FastDepth is: floats (1, 3, 224, 224) in, their mean out."""
    out = [1 if place == axis else length for place, length in enumerate(shape)]
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", [names[0]], [names[1]], axes=[axis], keepdims=1)],
        "foreign",
        [helper.make_tensor_value_info(names[0], onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(names[1], onnx.TensorProto.FLOAT, out)],
    )
    opset = [helper.make_opsetid("", 13)]
    return _write(path, helper.make_model(graph, opset_imports=opset, ir_version=8))


# Graphs with the inputs and outputs of published files; {size} is their height and width.
PUBLISHED = {
    "midas": """(float[1, 3, {size}] x) => (float[1, {size}] y) <int64[1] one = {{1}}> {{
        map = Conv (x, weights, bias)
        y = Squeeze (map, one)
    }}""",
    "metric3d": """(float[1, 3, {size}] image) => (float[1, 1, {size}] pred_depth) {{
        pred_depth = Conv (image, weights, bias)
    }}""",
    "metric3d, hub": """(float[B, 3, H, W] pixel_values) =>
    (float[B, H, W] predicted_depth, float[B, 3, H, W] predicted_normal,
     float[B, H, W] normal_confidence) <int64[1] one = {{1}}> {{
        map = Conv (pixel_values, weights, bias)
        predicted_depth = Squeeze (map, one)
        predicted_normal = Identity (pixel_values)
        normal_confidence = Identity (predicted_depth)
    }}""",
    "unidepth": """(float[B, 3, {size}] rgbs, float[B, 3, {size}] rays) =>
    (float[B, 3, {size}] pts_3d, float[B, 1, {size}] confidence, float[B, 3, 3] intrinsics)
    <float[1, 3, 3] intrinsics = {{1, 0, 0, 0, 1, 0, 0, 0, 1}}> {{
        radius = Conv (rgbs, weights, bias)
        pts_3d = Mul (rays, radius)
        confidence = Identity (radius)
    }}""",
    "unidepth-matrix": """(float[B, 3, {size}] image, float[B, 3, 3] K) =>
    (float[B, 3, 3] out_K, float[B, 1, {size}] depth, float[B, 1, {size}] depth_ssi,
     float[B, 1, {size}] confidence) <int64[2] zero = {{0, 0}}, int64[2] one = {{1, 1}},
     int64[2] axes = {{1, 2}}, int64[4] shape = {{1, 1, 1, 1}}, float hundred = {{100}}> {{
        focal = Slice (K, zero, one, axes)
        factor = Reshape (focal, shape)
        scaled = Div (factor, hundred)
        depth_ssi = Conv (image, weights, bias)
        depth = Mul (depth_ssi, scaled)
        confidence = Identity (depth_ssi)
        out_K = Identity (K)
    }}""",
}


def published(path, name, size, weights, bias):
    """A small network with the inputs and outputs of a published one: a map of three colours."""
    model = _parsed(PUBLISHED[name].format(size=f"{size[0]}, {size[1]}"))
    for key, shape, values in (("weights", [1, 3, 1, 1], weights), ("bias", [1], [bias])):
        model.graph.initializer.append(
            helper.make_tensor(key, onnx.TensorProto.FLOAT, shape, values)
        )
    if name == "midas":  # named by the tracer, which the text form does not allow
        for node in model.graph.node:
            node.input[:] = ["0" if each == "x" else each for each in node.input]
        model.graph.input[0].name = "0"
    return _write(path, model)


def for_one_size(path):
    """Normals of 8x8 images only."""
    graph = """(uint8[B, 8, 8, 3] image) => (float[B, 8, 8, 3] normals) {
        normals = Cast <to = 1> (image)
    }"""
    return _write(path, _parsed(graph))


def describe(path, **texts):
    """Add texts to the metadata of a file."""
    model = onnx.load(path, load_external_data=False)
    for key, text in texts.items():
        model.metadata_props.add(key=key, value=text)
    return _write(path, model)


def sealed(path, external="{}"):
    """Add a checksum to a file, as `idisc export` does; `external` are those of other files."""
    content = with_metadata(path.read_bytes(), checksums.EXTERNAL, external)
    path.write_bytes(checksums.sealed(content))
    return path


def _parsed(graph):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> graph {graph}')


def _write(path, model):
    path.write_bytes(model.SerializeToString())
    return path
