"""The command line."""

from viewkeeper.cli.app import main

__all__ = ["main"]
