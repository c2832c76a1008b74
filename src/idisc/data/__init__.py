"""Datasets without torch: from raw files over a manifest to samples in numpy."""
