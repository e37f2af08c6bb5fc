"""``python -m viewkeeper``."""

from viewkeeper.cli import main

main()
