"""One folder per method; each is importable as `icml.tools.NAME`."""
