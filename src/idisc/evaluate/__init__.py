"""Evaluation: a dataset, somebody's predictions and a protocol become numbers with a name."""
