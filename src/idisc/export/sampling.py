"""Sampling of deformable attention as an ONNX function: Gather and explicit bilinear weights.

Written down in the text form of ONNX, because it is read more often than run: `model.sampling` has
the same in torch. A lane is one of the K V S places that a query looks at. Every place is four rows
of the values and four shares; a product sums the 4 V S of a head. All of what a picture's queries
gather would be gigabytes, so a Scan takes `BLOCK` of them at a time.
"""

from __future__ import annotations

from typing import Any

from idisc.model.network import IDisc

DOMAIN = "idisc"
BLOCK = 512  # heads of queries at a time: what they gather, 8 MB, stays in a cache

SAMPLE = """
<domain: "idisc", opset_import: ["" : {opset}]>
Sample (value, sizes, locations, weights) => (read)
{{
  table_shape = Constant <value_ints = [-1, {channels}]> ()
  table = Reshape (value, table_shape)
  lanes = Constant <value_ints = [-1, {lanes}]> ()
  one_lane = Constant <value_ints = [{lanes}]> ()
  all_lanes = Constant <value_ints = [{heads}, {levels}, {points}]> ()
  first_axis = Constant <value_int = 0> ()
  heads = Constant <value_int = {heads}> ()
  head = Constant <value = int64[{heads}, 1, 1] {{{head_list}}}> ()
  half = Constant <value_float = 0.5> ()
  one = Constant <value_float = 1.0> ()
  zero = Constant <value_float = 0.0> ()

  height, width = Split <axis = 1, num_outputs = 2> (sizes)
  area = Mul (height, width)
  end = CumSum (area, first_axis)
  start = Sub (end, area)
  start_row = Mul (start, heads)
  start_rows = Add (start_row, head)
  line = Mul (width, heads)
  lane_starts = Expand (start_rows, all_lanes)
  lane_lines = Expand (line, all_lanes)
  lane_widths = Expand (width, all_lanes)
  lane_heights = Expand (height, all_lanes)
  starts64 = Reshape (lane_starts, one_lane)
  lines64 = Reshape (lane_lines, one_lane)
  widths64 = Reshape (lane_widths, one_lane)
  heights64 = Reshape (lane_heights, one_lane)
  starts = Cast <to = 6> (starts64)
  lines = Cast <to = 6> (lines64)
  step = Cast <to = 6> (heads)
  widths = Cast <to = 1> (widths64)
  heights = Cast <to = 1> (heights64)
  last_columns = Sub (widths, one)
  last_lines = Sub (heights, one)

  x_part, y_part = Split <axis = 4, num_outputs = 2> (locations)
  x = Reshape (x_part, lanes)
  y = Reshape (y_part, lanes)
  weight = Reshape (weights, lanes)
  x_scaled = Mul (x, widths)
  y_scaled = Mul (y, heights)
  x_place = Sub (x_scaled, half)
  y_place = Sub (y_scaled, half)
  left = Floor (x_place)
  upper = Floor (y_place)
  right = Add (left, one)
  lower = Add (upper, one)
  left_low = Min (left, last_columns)
  left_on = Max (left_low, zero)
  right_low = Min (right, last_columns)
  right_on = Max (right_low, zero)
  upper_low = Min (upper, last_lines)
  upper_on = Max (upper_low, zero)
  lower_low = Min (lower, last_lines)
  lower_on = Max (lower_low, zero)
  left_inside = Equal (left, left_on)
  right_inside = Equal (right, right_on)
  upper_inside = Equal (upper, upper_on)
  lower_inside = Equal (lower, lower_on)
  right_far = Sub (x_place, left)
  lower_far = Sub (y_place, upper)
  left_far = Sub (one, right_far)
  upper_far = Sub (one, lower_far)
  left_share = Where (left_inside, left_far, zero)
  right_share = Where (right_inside, right_far, zero)
  upper_share = Where (upper_inside, upper_far, zero)
  lower_share = Where (lower_inside, lower_far, zero)
  upper_weight = Mul (upper_share, weight)
  lower_weight = Mul (lower_share, weight)

  left_column = Cast <to = 6> (left_on)
  right_column = Cast <to = 6> (right_on)
  upper_line = Cast <to = 6> (upper_on)
  lower_line = Cast <to = 6> (lower_on)
  left_step = Mul (left_column, step)
  right_step = Mul (right_column, step)
  upper_step = Mul (upper_line, lines)
  lower_step = Mul (lower_line, lines)
  upper_start = Add (upper_step, starts)
  lower_start = Add (lower_step, starts)

  corner_shape = Constant <value_ints = [-1, {corner}]> ()
  row_0 = Add (upper_start, left_step)
  row_1 = Add (upper_start, right_step)
  row_2 = Add (lower_start, left_step)
  row_3 = Add (lower_start, right_step)
  rows_0 = Reshape (row_0, corner_shape)
  rows_1 = Reshape (row_1, corner_shape)
  rows_2 = Reshape (row_2, corner_shape)
  rows_3 = Reshape (row_3, corner_shape)
  rows = Concat <axis = 1> (rows_0, rows_1, rows_2, rows_3)
  share_0 = Mul (upper_weight, left_share)
  share_1 = Mul (upper_weight, right_share)
  share_2 = Mul (lower_weight, left_share)
  share_3 = Mul (lower_weight, right_share)
  shares_0 = Reshape (share_0, corner_shape)
  shares_1 = Reshape (share_1, corner_shape)
  shares_2 = Reshape (share_2, corner_shape)
  shares_3 = Reshape (share_3, corner_shape)
  shares = Concat <axis = 1> (shares_0, shares_1, shares_2, shares_3)

{summed}  read_shape = Constant <value_ints = [-1, {width}]> ()
  read = Reshape (all_read, read_shape)
}}
"""

BY_BLOCK = """  count = Shape <start = 0, end = 1> (rows)
  block = Constant <value_ints = [{block}]> ()
  minus_count = Neg (count)
  missing = Mod (minus_count, block)
  before = Constant <value_ints = [0, 0]> ()
  beside = Constant <value_ints = [0]> ()
  pads = Concat <axis = 0> (before, missing, beside)
  even_rows = Pad (rows, pads)
  even_shares = Pad (shares, pads)
  row_blocks = Constant <value_ints = [-1, {block}, {rows}]> ()
  share_blocks = Constant <value_ints = [-1, {block}, 1, {rows}]> ()
  rows_by_block = Reshape (even_rows, row_blocks)
  shares_by_block = Reshape (even_shares, share_blocks)
  read_by_block = Scan <num_scan_inputs = 2, body = look (int32[Q, R] row, float[Q, O, R] share)
    => (float[Q, O, D] answer) {{
    gathered = Gather <axis = 0> (table, row)
    answer = MatMul (share, gathered)
  }}> (rows_by_block, shares_by_block)
  even_read = Reshape (read_by_block, table_shape)
  all_read = Slice (even_read, beside, count, beside)
"""

AT_ONCE = """  share_shape = Constant <value_ints = [-1, 1, {rows}]> ()
  share_list = Reshape (shares, share_shape)
  gathered = Gather <axis = 0> (table, rows)
  all_read = MatMul (share_list, gathered)
"""
"""The same for runtimes whose loops cannot see what is outside of them, such as OpenVINO."""


def sample_function(network: IDisc, opset: int, *, by_block: bool) -> Any:
    """The operation `Sample` of our domain for one network, as an onnx.FunctionProto."""
    from onnx import parser

    decoder, levels = network.config.decoder, len(network.encoder.channels[network.decoded])
    numbers = {
        "opset": opset,
        "block": BLOCK,
        "heads": decoder.heads,
        "head_list": ", ".join(map(str, range(decoder.heads))),
        "levels": levels,
        "points": decoder.points,
        "lanes": decoder.heads * levels * decoder.points,
        "corner": levels * decoder.points,
        "rows": 4 * levels * decoder.points,
        "channels": decoder.width // decoder.heads,
        "width": decoder.width,
    }
    summed = (BY_BLOCK if by_block else AT_ONCE).format(**numbers)
    text = SAMPLE.format(summed=summed, **numbers)
    return parser.parse_function(text)
