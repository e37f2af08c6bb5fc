"""Rows of a view that somebody watches: what they are, and what each commit changes in them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.errors import DataError, EngineError, EvaluationError, ProgramError, StoreError
from viewkeeper.held import Held
from viewkeeper.history import History
from viewkeeper.warehouse import at_most
from viewkeeper.watched import Wanted, json_rows, told_columns

PROGRAM = """
.type Item <: symbol
.decl price(item: Item, cents: number, on: date?, count: decimal(6,2)?) key(item)
.decl dear(item: Item, cents: number)
dear(i, c) :- price(i, c, _, _), c >= 50.
.decl flag()
flag() :- price(_, c, _, _), c > 90.
.decl pair(a: symbol, b: symbol)
pair(a, b) :- price(a, c, _, _), price(b, c, _, _), a != b.
.external pair
.decl same(a: symbol, b: symbol)
same(a, b) :- pair(a, b).
same(a, c) :- same(a, b), pair(b, c).
.virtual same
"""
WANTED = [
    Wanted("price"),
    Wanted("dear"),
    Wanted("flag"),
    Wanted("pair"),
    Wanted("dear", (("item", "i3"),)),
    Wanted("pair", (("a", "i1"),)),
    Wanted("pair", (("a", "i1"), ("b", "i2"))),
    Wanted("same"),
    Wanted("same", (("a", "i1"),), 'b != "i2"'),
    Wanted("dear", (), 'cents % 2 = 0 ; item = "i1"'),
    Wanted("dear", (("item", "i3"),), "cents > 60"),
    Wanted("price", (), "is_null(on), cents > 20 // cheap ones are left out"),
    Wanted("price", (), "x = cents / 10, x > 4"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[vk.Warehouse]:
    with vk.open(tmp_path / "shop", create=True, engine="embedded") as opened:
        opened.define(PROGRAM)
        yield opened


def random_commit(shop: vk.Warehouse, choose: random.Random) -> None:
    item = f"i{choose.randrange(6)}"
    if choose.random() < 0.3:
        gone = [row for row in shop.query("price(a, b, c, d)") if row[0] == item]
        shop.commit(deletes={"price": gone})
    else:
        day = choose.choice([None, datetime.date(2026, 1, choose.randrange(1, 9))])
        shop.commit(upserts={"price": [(item, choose.randrange(100), day, choose.choice([None, "1.50"]))]})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gather", [False, True])
def test_what_is_followed_is_what_is_there(shop: vk.Warehouse, seed: int, gather: bool) -> None:
    choose = random.Random(seed)
    held = {wanted: (set(found.rows), found.commit) for wanted in WANTED for found in [shop.rows_of(wanted)]}
    history = {wanted: {held[wanted][1]: held[wanted][0]} for wanted in WANTED}
    for _ in range(20):
        random_commit(shop, choose)
        for wanted in WANTED:
            history[wanted][shop.last()] = set(shop.rows_of(wanted).rows)
            if choose.random() < 0.5:
                continue
            rows, since = held[wanted]
            told = shop.follow(wanted, since, gather=gather)
            assert len(told.steps) <= 1 or not gather
            for step in told.steps:
                came, went = (set(part) for part in step.changed.stored)
                assert since < step.first <= step.commit <= told.until
                assert not came & rows and went <= rows
                rows = (rows - went) | came
                assert rows == history[wanted][step.commit]
            assert rows == history[wanted][told.until]
            held[wanted] = rows, told.until
    for wanted in WANTED:
        for commit, rows in list(history[wanted].items())[::7]:
            found = shop.rows_of(wanted, as_of=commit)
            assert (set(found.rows), found.commit) == (rows, commit)


def test_rows_come_in_order_and_are_told_by_their_types(shop: vk.Warehouse) -> None:
    shop.commit({"price": [("b", 2, datetime.date(2026, 1, 31), "1.5"), ("a", 1, None, None)]})
    found = shop.rows_of(Wanted("price"))
    assert json_rows(found.rows, found.relation) == [["a", 1, None, None], ["b", 2, "2026-01-31", "1.50"]]
    assert told_columns(found.relation) == [
        ("item", "symbol", True, "Item"),
        ("cents", "number", False, None),
        ("on", "date?", False, None),
        ("count", "decimal(6,2)?", False, None),
    ]


def test_a_part_of_the_commits_can_be_followed(shop: vk.Warehouse) -> None:
    for cents in (60, 70, 80):
        shop.commit(upserts={"price": [("a", cents, None, None)]})
    told = shop.follow(Wanted("dear"), 2, 3)
    assert [(step.commit, step.changed.stored) for step in told.steps] == [(3, ([("a", 70)], [("a", 60)]))]
    assert told.until == 3
    [step] = shop.follow(Wanted("dear"), 1, gather=True).steps
    assert (step.first, step.commit, step.changed.stored) == (2, 4, ([("a", 80)], []))


def test_other_columns_and_a_drop_are_told(shop: vk.Warehouse) -> None:
    shop.commit({"price": [("a", 60, None, None)]})
    since = shop.last()
    shop.define(".decl dear(item: Item) dear(i) :- price(i, c, _, _), c >= 50.", replace=True)
    assert shop.follow(Wanted("dear"), since).reset == "its columns have changed"
    shop.define(".decl dear(item: Item) dear(i) :- price(i, c, _, _), c >= 70.", replace=True)
    [step] = shop.follow(Wanted("dear"), shop.last() - 1).steps
    assert step.changed.stored == ([], [("a",)])
    anew = shop.follow(
        Wanted("dear"), 1, 2
    )  # what there is now has other columns: it is told once, not again up to each commit
    assert (anew.reset, anew.until) == ("its columns have changed", shop.last())
    shop.drop("dear")
    assert shop.follow(Wanted("dear"), since).gone


@pytest.mark.parametrize(
    ("wanted", "kind", "code"),
    [
        (Wanted("nothing"), StoreError, "UNKNOWN_RELATION"),
        (Wanted("dear", (("itm", "a"),)), DataError, "BAD_ARGUMENT"),
        (Wanted("dear", (("cents", "many"),)), DataError, "BAD_ARGUMENT"),
        (Wanted("dear", (), "price(item, cents, _, _)"), ProgramError, "UNKNOWN_RELATION"),
        (Wanted("dear", (), "row(item, cents)"), DataError, "BAD_ARGUMENT"),
        (Wanted("dear", (), "cents > 1, !row(item, 3)"), DataError, "BAD_ARGUMENT"),
        (Wanted("dear", (), "cents > count : { row(_, _) }"), DataError, "BAD_ARGUMENT"),
        (Wanted("dear", (), "cents >"), ProgramError, "SYNTAX"),
        (Wanted("dear", (), "cents > 1), (cents < 9"), ProgramError, "SYNTAX"),
        (Wanted("dear", (), "nothing > 3"), ProgramError, "UNBOUND_VARIABLE"),
        (Wanted("dear", (), "item > 3"), ProgramError, "TYPE_COMPARISON"),
    ],
)
def test_what_cannot_be_wanted_is_refused(shop: vk.Warehouse, wanted: Wanted, kind: type, code: str) -> None:
    with pytest.raises(kind) as refused:
        shop.check_wanted(wanted)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("where", "place"),
    [("cents >", (1, 8)), ("cents > 1,\n nothing > 3", (2, 2)), ("cents > 1 // x\n, item > 3", (2, 3))],
)
def test_what_is_wrong_in_a_filter_has_its_place_there(shop: vk.Warehouse, where: str, place: tuple[int, int]) -> None:
    with pytest.raises(ProgramError) as raised:
        shop.rows_of(Wanted("dear", (), where))
    [found] = raised.value.problems
    assert found.span is not None
    assert found.source is not None
    assert (found.span.line, found.span.column) == place
    assert (found.source.name, found.source.text) == ("<filter>", where)


def test_hidden_relations_are_unknown(shop: vk.Warehouse) -> None:
    shop.check_visible("dear(x, y), y > 3", lambda name: name == "dear")
    with pytest.raises(ProgramError) as refused:
        shop.check_visible("dear(x, y), price(x, _, _, _)", lambda name: name == "dear")
    assert refused.value.code == "UNKNOWN_RELATION"
    assert "price(" not in refused.value.problems[0].hint.replace("price(…)", "")


def test_a_question_may_not_take_for_ever(shop: vk.Warehouse) -> None:
    shop.define(".decl n(x: number) n(x) :- x = range(0, 3000).")
    with at_most(0.05), pytest.raises(EngineError) as refused:
        shop.query("total = count : { n(a), n(b), n(c), a + b = c }")
    assert refused.value.code == "QUERY_TOO_SLOW"
    assert list(shop.query("c = count : { n(_) }")) == [(3000,)]


def test_the_first_rows_of_a_large_relation(shop: vk.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    import viewkeeper.watched

    monkeypatch.setattr(viewkeeper.watched, "LARGE", 10)
    shop.commit({"price": [(f"i{n:02}", n, None, None) for n in range(20)]})
    assert [row[0] for row in shop.rows_of(Wanted("price"), most=3).rows] == ["i00", "i01", "i02"]
    assert len(shop.rows_of(Wanted("price", (), "cents > 3"), most=3).rows) == 16
    assert len(shop.rows_of(Wanted("price"), as_of=2, most=3).rows) == 3
    assert len(shop.rows_of(Wanted("price")).rows) == 20


def told(held: Held) -> list[tuple[int, list[tuple[str, tuple[object, ...]]]]]:
    return [(commit, list(changed.values())) for commit, changed in held.changes()]


@pytest.mark.parametrize("through", ["", ".external r"])
def test_a_base_relation_that_becomes_a_virtual_view_has_what_it_had(shop: vk.Warehouse, through: str) -> None:
    shop.define(".decl a(x: number) .decl r(x: number) r(5).")
    shop.commit({"a": [(1,)]})
    since, held = shop.last(), shop.ask("r(x)")
    if through:
        shop.define(f"r(x) :- a(x), x < 2. {through}")
    shop.define("r(x) :- a(x). .virtual r")
    came = shop.last()
    shop.commit({"a": [(2,)]})
    assert list(shop.query("r(x)", as_of=since)) == [(5,)]
    assert told(held) == [(since + 1, [("insert", (1,))]), (came + 1, [("insert", (2,))])]
    shop.define(".decl r(x: number)", replace=True)
    assert list(shop.query("r(x)", as_of=since)) == [(5,)] and not list(shop.query("r(x)"))
    assert told(held) == [(shop.last(), [("delete", (1,)), ("delete", (2,)), ("delete", (5,))])]


def test_a_base_relation_that_is_an_external_view_now_has_what_it_had(shop: vk.Warehouse) -> None:
    shop.define(".decl a(x: number) .decl r(x: number) r(5). r(6). .decl q(x: number) q(x) :- r(x).")
    shop.commit({"a": [(1,)]})
    since, held = shop.last(), shop.ask("r(x), x > 0")
    shop.define("r(x) :- a(x), x < 2. .external r")
    shop.commit({"a": [(0,)]})
    for question in ("r(x)", "r(x), x > 0", "q(x)"):
        assert list(shop.query(question, as_of=since)) == [(5,), (6,)]
    assert list(shop.query("a(x), !r(x)", as_of=since)) == [(1,)]
    assert told(held) == [(since + 1, [("insert", (1,))])]


def test_a_virtual_view_is_followed_from_before_there_was_one(shop: vk.Warehouse) -> None:
    since = shop.last()
    shop.define(".decl a(x: number)")
    shop.define(".decl v(x: number) v(x) :- a(x). .virtual v")
    shop.commit({"a": [(1,)]})
    for gather in (False, True):
        [step] = shop.follow(Wanted("v"), since, gather=gather).steps
        assert (step.commit, step.changed.stored) == (shop.last(), ([(1,)], []))
    assert not shop.follow(Wanted("v"), since, since + 1).steps


def test_failures_of_what_was_name_what_there_was(shop: vk.Warehouse) -> None:
    shop.define(".decl a(x: number) .decl a_b(x: number) a_b(y) :- a(x), y = 12 / x. .virtual a_b")
    shop.commit({"a": [(0,)]})
    since = shop.last()
    shop.drop("a_b")
    with pytest.raises(EvaluationError) as refused:
        shop.query("a_b(x)", as_of=since)
    assert 'in a rule of "a_b"' in str(refused.value)


def test_an_answer_goes_on_when_it_can_be_asked_for_again(shop: vk.Warehouse) -> None:
    shop.define(".decl a(x: number) .decl v(x: number) v(x) :- a(x).")
    shop.commit({"a": [(1,), (2,)]})
    held = shop.ask("v(x)")
    shop.drop("v")
    for _ in range(2):
        with pytest.raises(ProgramError) as refused:
            told(held)
        assert refused.value.code == "UNKNOWN_RELATION"
    shop.define(".decl v(x: number) v(x) :- a(x), x > 1.")
    again = shop.last()
    shop.commit({"a": [(3,)]})
    assert told(held) == [(again, [("delete", (1,))]), (again + 1, [("insert", (3,))])]


def test_an_answer_goes_on_behind_what_failed(shop: vk.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.define(".decl b(x: number) .decl a(x: number) .decl v(x: number) v(y) :- a(x), y = 12 / x. .virtual v")
    shop.commit({"a": [(1,)]})
    held = shop.ask("v(x)")
    shop.commit({"a": [(0,), (2,)]})
    with pytest.raises(EvaluationError) as refused:
        told(held)
    assert refused.value.code == "DIVISION_BY_ZERO"
    for x in range(5):  # cannot mend it, so nothing is derived for them
        shop.commit({"b": [(x,)]})
    asked: list[object] = []
    answer = History.answer
    monkeypatch.setattr(History, "answer", lambda *arguments: asked.append(arguments) or answer(*arguments))
    with pytest.raises(EvaluationError):
        told(held)
    assert len(asked) == 2
    shop.commit(deletes={"a": [(0,)]})
    assert told(held) == [(shop.last(), [("insert", (6,))])]


REACH = """
.decl edge(a: number, b: number)
.decl reach(a: number, b: number)
reach(a, b) :- edge(a, b).
reach(a, c) :- reach(a, b), edge(b, c).
.decl count_of(a: number, n: number)
count_of(a, n) :- edge(a, _), n = count : { reach(a, _) }.
"""
OTHERWISE = (
    ".decl reach(a: number, b: number) reach(a, b) :- edge(b, a).",
    ".decl reach(a: number, b: float) reach(a, b) :- edge(a, c), b = to_float(c).",
    ".decl reach(a: number, b: number) reach(a, b) :- edge(a, b). reach(a, c) :- reach(a, b), edge(b, c).",
    ".decl count_of(a: number, n: number) count_of(a, n) :- edge(a, _), n = count : { edge(a, _) }.",
)
QUESTIONS = ("reach(x, y)", "reach(1, y)", "reach(x, y), edge(_, x), !edge(x, x)", "count_of(x, n)")


def answers_of(shop: vk.Warehouse) -> dict[str, set[tuple[object, ...]]]:
    return {question: set(shop.query(question)) for question in QUESTIONS}


@pytest.mark.parametrize("seed", range(8))
def test_answers_and_what_was_are_right_however_views_are_stored_and_defined(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    with vk.open(tmp_path / "shop", create=True, engine="embedded") as shop:
        shop.define(REACH)
        held, history = [], {}
        for step in range(14):
            view = choose.choice(["reach", "count_of"])
            rows = [(choose.randrange(5), choose.randrange(5)) for _ in range(3)]
            there = set(shop.query("edge(a, b)"))
            match choose.randrange(6):
                case 0:
                    shop.store(view, external=False)
                case 1:
                    shop.store(view, external=True)
                case 2:
                    shop.define(f".virtual {view}")
                case 3 if step:
                    shop.define(choose.choice(OTHERWISE), replace=True)
                case _:
                    shop.commit({"edge": set(rows) - there}, deletes={"edge": there & set(rows[:1])})
            history[shop.last()] = answers_of(shop)
            held += [(shop.ask(question), shop.last()) for question in QUESTIONS if choose.random() < 0.3]
        for answer, since in held:
            rows = set(answer.answer)
            for commit, changed in answer.changes():
                came, went = (list(part) for part in (changed.rows(), (r for how, r in changed.values() if how == "delete")))
                assert set(went) <= rows and len(went) == len(set(went))
                rows -= set(went)
                assert not set(came) & rows and len(came) == len(set(came))
                rows |= set(came)
                assert rows == history[commit][answer.text], (answer.text, since, commit)
            assert rows == history[shop.last()][answer.text]
        for commit, answers in history.items():
            for question, rows in answers.items():
                assert set(shop.query(question, as_of=commit)) == rows, (question, commit)
        assert all(view.right for view in shop.verify())
