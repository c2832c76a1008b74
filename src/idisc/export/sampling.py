"""The sampling of deformable attention as an ONNX function: Gather and bilinear weights.

It is written in the text form of ONNX and computes what `model.sampling` computes in torch. A lane
is one of the K V S locations of a query. Each location reads four rows of the values with four
weights; a matrix product sums the 4 V S rows of a head. All rows of an image would take gigabytes,
so a Scan processes `BLOCK` (query, head) pairs at a time.
"""

from __future__ import annotations

from typing import Any

from idisc.model.network import IDisc

DOMAIN = "idisc"
BLOCK = 512  # (query, head) pairs per step: the rows they gather, 8 MB, stay in the cache

# Axes: 2 neighbours (low, high) x 2 coordinates (x, y) x Q queries x lanes.
SAMPLE = """
<domain: "idisc", opset_import: ["" : {opset}]>
Sample (value, sizes, locations, weights) => (result)
{{
  zero = Constant <value_float = 0.0> ()
  half = Constant <value_float = 0.5> ()
  one = Constant <value_float = 1.0> ()
  heads = Constant <value_int = {heads}> ()
  head = Constant <value = int64[{heads}, 1, 1] {{{head_list}}}> ()
  neighbour = Constant <value = float[2, 1, 1, 1] {{0, 1}}> ()
  flat = Constant <value_ints = [-1]> ()
  per_lane = Constant <value_ints = [{heads}, {levels}, {points}]> ()
  by_coordinate = Constant <value_ints = [2, 1, {lanes}]> ()
  by_lane = Constant <value_ints = [2, -1, {lanes}]> ()
  weights_by_lane = Constant <value_ints = [-1, {lanes}]> ()
  columns_by_lane = Constant <value_ints = [1, 2, -1, {lanes}]> ()
  corners_by_head = Constant <value_ints = [4, -1, {heads}, {corner}]> ()
  rows_by_head = Constant <value_ints = [-1, {rows}]> ()
  table_shape = Constant <value_ints = [-1, {channels}]> ()
  result_shape = Constant <value_ints = [-1, {width}]> ()
  first_axis = Constant <value_int = 0> ()

  height, width = Split <axis = 1, num_outputs = 2> (sizes)
  area = Mul (height, width)
  end = CumSum (area, first_axis)
  start = Sub (end, area)
  start_row = Mul (start, heads)
  start_rows = Add (start_row, head)
  lane_starts = Expand (start_rows, per_lane)
  flat_starts = Reshape (lane_starts, flat)
  starts = Cast <to = 6> (flat_starts)
  lane_widths = Expand (width, per_lane)
  lane_heights = Expand (height, per_lane)
  both_sides = Concat <axis = 0> (lane_widths, lane_heights)
  flat_sides = Reshape (both_sides, by_coordinate)
  sides = Cast <to = 1> (flat_sides)
  last = Sub (sides, one)
  line = Mul (width, heads)
  lane_columns = Expand (heads, per_lane)
  lane_lines = Expand (line, per_lane)
  both_steps = Concat <axis = 0> (lane_columns, lane_lines)
  flat_steps = Reshape (both_steps, by_coordinate)
  steps = Cast <to = 6> (flat_steps)

  coordinates_first = Transpose <perm = [4, 0, 1, 2, 3]> (locations)
  coordinates = Reshape (coordinates_first, by_lane)
  scaled = Mul (coordinates, sides)
  place = Sub (scaled, half)
  low = Floor (place)
  pixel = Add (low, neighbour)
  not_above = Min (pixel, last)
  inside_pixel = Max (not_above, zero)
  inside = Equal (pixel, inside_pixel)
  offset = Sub (place, pixel)
  distance = Abs (offset)
  closeness = Sub (one, distance)
  share = Where (inside, closeness, zero)
  index = Cast <to = 6> (inside_pixel)
  row_offset = Mul (index, steps)

  x_offset, y_offset = Split <axis = 1, num_outputs = 2> (row_offset)
  column = Reshape (x_offset, columns_by_lane)
  placed_line = Add (y_offset, starts)
  corner_row = Add (placed_line, column)
  x_share, y_share = Split <axis = 1, num_outputs = 2> (share)
  column_share = Reshape (x_share, columns_by_lane)
  lane_weights = Reshape (weights, weights_by_lane)
  weighted_line = Mul (y_share, lane_weights)
  corner_share = Mul (weighted_line, column_share)

  row_corners = Reshape (corner_row, corners_by_head)
  row_heads = Transpose <perm = [1, 2, 0, 3]> (row_corners)
  rows = Reshape (row_heads, rows_by_head)
  share_corners = Reshape (corner_share, corners_by_head)
  share_heads = Transpose <perm = [1, 2, 0, 3]> (share_corners)
  shares = Reshape (share_heads, rows_by_head)

  count = Shape <start = 0, end = 1> (rows)
  block = Constant <value_ints = [{block}]> ()
  minus_count = Neg (count)
  missing = Mod (minus_count, block)
  no_axes = Constant <value_ints = [0, 0]> ()
  no_axis = Constant <value_ints = [0]> ()
  pads = Concat <axis = 0> (no_axes, missing, no_axis)
  padded_rows = Pad (rows, pads)
  padded_shares = Pad (shares, pads)
  row_blocks = Constant <value_ints = [-1, {block}, {rows}]> ()
  share_blocks = Constant <value_ints = [-1, {block}, 1, {rows}]> ()
  rows_by_block = Reshape (padded_rows, row_blocks)
  shares_by_block = Reshape (padded_shares, share_blocks)
  table = Reshape (value, table_shape)
  sums_by_block = Scan <num_scan_inputs = 2, body = sum (int32[Q, R] row, float[Q, O, R] part)
    => (float[Q, O, D] total) {{
    gathered = Gather <axis = 0> (table, row)
    total = MatMul (part, gathered)
  }}> (rows_by_block, shares_by_block)
  padded_sums = Reshape (sums_by_block, table_shape)
  sums = Slice (padded_sums, no_axis, count, no_axis)
  result = Reshape (sums, result_shape)
}}
"""


def sample_function(network: IDisc, opset: int) -> Any:
    """Return the operation `Sample` of our domain for one network, as an onnx.FunctionProto."""
    from onnx import parser

    decoder, levels = network.config.decoder, len(network.encoder.channels[network.decoded])
    text = SAMPLE.format(
        opset=opset,
        block=BLOCK,
        heads=decoder.heads,
        head_list=", ".join(map(str, range(decoder.heads))),
        levels=levels,
        points=decoder.points,
        lanes=decoder.heads * levels * decoder.points,
        corner=levels * decoder.points,
        rows=4 * levels * decoder.points,
        channels=decoder.width // decoder.heads,
        width=decoder.width,
    )
    return parser.parse_function(text)
