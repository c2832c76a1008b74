"""The web page and the HTTP API of `idisc serve`: one model, one queue, and private results."""
