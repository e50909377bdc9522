"""Installed as `icml/__main__.py`: `python -m icml` is the program `icml`."""

from icml.cli.main import main

main()
