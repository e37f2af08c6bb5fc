"""The command line."""

from viewkeeper.cli.entry import main

__all__ = ["main"]
