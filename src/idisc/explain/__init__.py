"""What the network sees: its internal representations, made visible."""
