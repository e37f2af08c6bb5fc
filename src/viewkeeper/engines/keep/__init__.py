"""Stored views that follow changes, on SQLite: ``Maintainer`` carries out a plan, one keeper for each of its steps."""

from viewkeeper.engines.keep.keeper import TooLarge as TooLarge
from viewkeeper.engines.keep.maintainer import ITSELF as ITSELF
from viewkeeper.engines.keep.maintainer import Maintainer as Maintainer
from viewkeeper.engines.keep.maintainer import Worker as Worker
from viewkeeper.engines.keep.maintainer import strategy as strategy
from viewkeeper.engines.keep.windows import WindowKeeper as WindowKeeper
