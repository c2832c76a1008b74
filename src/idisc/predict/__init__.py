"""Prediction: engines that turn pictures into metres, and what is built around them."""
