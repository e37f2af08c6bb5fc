"""What a token may do. What it may not read looks as if it did not exist."""

from __future__ import annotations

import datetime

import msgspec

from viewkeeper.errors import StoreError, ViewkeeperError, problem

ALL = "*"


class Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Views it may read, relations it may write (``"*"``: all), whether it may define, see metrics, and administer tokens."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    define: bool = False
    metrics: bool = False
    admin: bool = False

    @property
    def reads_all(self) -> bool:
        return self.admin or self.define or ALL in self.read

    @property
    def writes_all(self) -> bool:
        return self.admin or ALL in self.write

    def reads(self, name: str) -> bool:
        return self.reads_all or name in self.read

    def writes(self, name: str) -> bool:
        return self.writes_all or name in self.write

    def sees(self, name: str) -> bool:
        """May it know that there is such a relation?"""
        return self.reads(name) or name in self.write or ALL in self.write


EVERYTHING = Grants(read=(ALL,), write=(ALL,), define=True, metrics=True, admin=True)


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token as its list tells it; never its text."""

    name: str
    created: datetime.datetime
    grants: Grants
    expires: datetime.datetime | None = None

    def has_expired(self, moment: datetime.datetime) -> bool:
        return self.expires is not None and self.expires <= moment


class Refused(ViewkeeperError):
    """A request that is refused; ``status`` is HTTP's."""

    def __init__(self, status: int, code: str, **parameters: object) -> None:
        self.status = status
        super().__init__(problem(code, **parameters))


def forbidden(what: str) -> Refused:
    return Refused(403, "FORBIDDEN", what=what)


def unknown_relation(name: str, near: str = "") -> StoreError:
    return StoreError(problem("UNKNOWN_RELATION", relation=name, near=near))
