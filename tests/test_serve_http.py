"""What the server answers: rows in all forms, commits, questions, and errors in one envelope."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.serving import Answer, Server, make_warehouse, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = make_warehouse(tmp_path_factory.mktemp("http") / "shop")
    with serving(path, "--max-body", "100000", "--max-rows", "500", "--query-seconds", "2") as started:
        assert started.commit("price", ["ink", 250], ["pen", 50], ["cup", 400]).status == 200
        assert started.commit("sold", ["ink", "2026-01-31", 3]).status == 200
        yield started


def check_envelope(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.headers["content-type"].startswith("application/json")
    error = answer.json["error"]
    assert {"code", "message", "hint", "kind", "problems"} <= error.keys()
    assert all({"code", "message", "hint"} <= one.keys() for one in error["problems"])
    assert "Traceback" not in answer.body.decode()


# ---- transactions


def test_a_transaction_tells_what_changed(server: Server) -> None:
    body = {"operations": [{"relation": "price", "op": "upsert", "row": {"item": "pot", "cents": 150}}]}
    first = server.post("/v1/transactions?changes=rows", body).json
    assert first["changes"]["dear"] == {
        "inserted": [["pot", 150]],
        "deleted": [],
        "columns": [{"name": "item", "type": "symbol", "key": False}, {"name": "cents", "type": "number", "key": False}],
    }
    assert server.post("/v1/transactions", body).json["commit"] is None
    body["operations"][0]["op"], body["operations"][0]["row"] = "delete", ["pot", 150]
    again = server.post("/v1/transactions?changes=counts", body).json
    assert again["commit"] == first["commit"] + 1
    assert again["changes"] == {"dear": {"inserted": 0, "deleted": 1}, "price": {"inserted": 0, "deleted": 1}}
    assert server.get(f"/v1/commits/{again['commit']}").json["changes"] == again["changes"]
    rows = server.get(f"/v1/commits/{first['commit']}?changes=rows").json["changes"]
    assert rows == first["changes"]


def test_a_preview_changes_nothing(server: Server) -> None:
    before = server.get("/v1").json["commit"]
    body = {"operations": [{"relation": "price", "op": "insert", "row": ["pan", 900]}]}
    answer = server.post("/v1/preview?changes=rows", body).json
    assert (answer["commit"], answer["changes"]["dear"]["inserted"]) == (None, [["pan", 900]])
    assert server.get("/v1").json["commit"] == before
    assert server.get("/v1/views/price?item=pan").json["rows"] == []


def test_operations_may_come_line_by_line(server: Server) -> None:
    lines = b'{"relation": "sold", "op": "insert", "row": ["cup", "2026-02-01", 1]}\n\n{"relation": "sold", "op": "delete", "row": ["cup", "2026-02-01", 1]}\n'
    headers = {"content-type": "application/x-ndjson"}
    answer = server.ask("POST", "/v1/transactions", lines, headers=headers)
    assert (answer.status, answer.json["commit"]) == (200, None)
    bad = server.ask("POST", "/v1/transactions", lines + b'{"relation": 3}\nnothing', headers=headers)
    check_envelope(bad, 400, "BAD_OPERATION")
    assert [problem["message"].split(":")[0] for problem in bad.json["error"]["problems"]] == ["line 4", "line 5"]


def test_a_key_is_used_once(server: Server) -> None:
    first = server.commit("price", ["lid", 120], key="k1").json
    again = server.commit("price", ["lid", 120], key="k1").json
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert (again["commit"], again["changes"]) == (first["commit"], first["changes"])
    check_envelope(server.commit("price", ["lid", 130], key="k1"), 409, "KEY_REUSED")
    check_envelope(server.commit("price", ["lid", 130], key="x" * 300), 400, "BAD_REQUEST")
    # Another token's key is another key.
    other = server.make_token("other writer", write=["price"])
    assert server.commit("price", ["tin", 1], key="k1", token=other).json["repeated"] is False


# ---- rows


def test_rows_in_every_form(server: Server) -> None:
    path = "/v1/views/sold"
    answer = server.get(path).json
    assert answer["columns"][1] == {"name": "day", "type": "date", "key": False}
    assert (answer["rows"], answer["next"], answer["view"]) == ([["ink", "2026-01-31", 3]], None, "sold")
    assert server.get(f"{path}?format=ndjson").body == b'{"item":"ink","day":"2026-01-31","pieces":3}\n'
    text = server.get(path, headers={"accept": "text/csv"})
    assert text.headers["content-type"].startswith("text/csv")
    assert list(csv.reader(io.StringIO(text.body.decode()))) == [["item", "day", "pieces"], ["ink", "2026-01-31", "3"]]
    arrow = server.get(path, headers={"accept": "application/vnd.apache.arrow.stream"})
    assert arrow.headers["viewkeeper-commit"] == str(answer["commit"])
    table = pa.ipc.open_stream(arrow.body).read_all()
    assert table.schema.field("day").type == pa.date32()
    assert [str(value) for value in table.to_pylist()[0].values()] == ["ink", "2026-01-31", "3"]


def test_columns_are_bound_and_rows_filtered(server: Server) -> None:
    rows = lambda path: server.get(path).json["rows"]  # noqa: E731
    assert rows("/v1/views/dear?item=ink") == [["ink", 250]]
    assert rows("/v1/views/dear?item=ink&cents=250") == [["ink", 250]]
    assert rows("/v1/views/dear?arg.item=nobody") == []
    assert rows("/v1/views/dear?where=cents%20%3E%20300") == [["cup", 400]]
    assert rows("/v1/views/sold?day=2026-01-31&where=pieces%3E1") == [["ink", "2026-01-31", 3]]


def test_pages_are_of_one_commit(server: Server) -> None:
    server.commit("sold", *[["page", "2026-03-01", n] for n in range(25)])
    first = server.get("/v1/views/sold?item=page&limit=10").json
    server.commit("sold", ["page", "2026-03-01", 5], op="delete")
    rows, page = list(first["rows"]), first
    while page["next"]:
        page = server.get(f"/v1/views/sold?item=page&limit=10&after={page['next']}").json
        assert page["commit"] == first["commit"]
        rows += page["rows"]
    assert rows == [["page", "2026-03-01", n] for n in range(25)]
    check_envelope(server.get(f"/v1/views/sold?limit=10&after={first['next']}"), 400, "BAD_ARGUMENT")
    check_envelope(server.get("/v1/views/sold?after=nonsense"), 400, "BAD_ARGUMENT")
    assert server.get("/v1/views/sold?item=page").json["rows"] == [["page", "2026-03-01", n] for n in range(25) if n != 5]


def test_rows_as_they_were(server: Server) -> None:
    commit = server.commit("price", ["jar", 500]).json["commit"]
    server.commit("price", ["jar", 600], op="upsert")
    assert server.get(f"/v1/views/dear?item=jar&as_of={commit}").json["rows"] == [["jar", 500]]
    assert server.get(f"/v1/views/dear?item=jar&as_of={commit - 1}").json["rows"] == []
    answer = server.post("/v1/query", {"query": 'dear("jar", c)', "as_of": commit}).json
    assert (answer["rows"], answer["commit"]) == ([[500]], commit)
    check_envelope(server.get("/v1/views/dear?as_of=99999"), 404, "UNKNOWN_COMMIT")


def test_a_question(server: Server) -> None:
    server.commit("price", ["ink", 250], ["cup", 400], ["nail", 2], ["screw", 3], op="upsert")
    answer = server.post("/v1/query", {"query": "price(i, c), c > 300, c < 450"}).json
    assert answer["rows"] == [["cup", 400]]
    assert [column["name"] for column in answer["columns"]] == ["i", "c"]
    assert server.post("/v1/query", {"query": 'price("ink", 250)'}).json["rows"] == [[]]
    pages = server.post("/v1/query", {"query": "price(i, _)", "limit": 2}).json
    more = server.post("/v1/query", {"query": "price(i, _)", "limit": 2, "after": pages["next"]}).json
    assert len(pages["rows"] + more["rows"]) == 4
    assert more["commit"] == pages["commit"]


def test_why(server: Server) -> None:
    answer = server.post("/v1/why", {"row": 'dear("ink", 250)'}).json
    assert answer["holds"]
    assert answer["text"].startswith('dear("ink", 250)   rule 1')
    assert [node["kind"] for node in answer["tree"]] == ["rule", "base", "condition"]


def test_definitions(server: Server) -> None:
    program = ".decl cheap(item: symbol) cheap(i) :- price(i, c), c < 100."
    assert server.post("/v1/definitions", {"program": program}).json["changes"]["cheap"]["inserted"] >= 1
    assert "cheap" in [view["name"] for view in server.get("/v1/views").json["views"]]
    replaced = program.replace("100", "10")
    other = ".decl cheap(item: symbol, cents: number)"
    check_envelope(server.post("/v1/definitions", {"program": other}), 400, "CONFLICTING_DEFINITION")
    assert server.post("/v1/definitions", {"program": replaced, "replace": True}).status == 200
    answer = server.post(
        "/v1/definitions", {"sql": "CREATE VIEW low AS SELECT item FROM price WHERE cents < 60; SELECT * FROM low"}
    )
    assert [result["kind"] for result in answer.json["results"]] == ["create view", "select"], answer.body
    assert ["pen"] in answer.json["results"][1]["rows"]
    for name in ("low", "cheap"):
        assert server.post("/v1/definitions", {"drop": name}).status == 200
    bad = server.post("/v1/definitions", {"program": ".decl p(x: nothing)\np(1) :- ."})
    check_envelope(bad, 400, bad.code)
    assert bad.json["error"]["problems"][0]["place"]["line"] == 1


def test_commits_are_listed(server: Server) -> None:
    answer = server.get("/v1/commits?since=1&limit=2").json
    assert [commit["commit"] for commit in answer["commits"]] == [2, 3]
    assert answer["commits"][0]["changes"]["price"] == {"inserted": 3, "deleted": 0}
    assert answer["last"] == server.get("/v1").json["commit"]
    found = server.get("/v1/commits?view=sold&limit=1").json["commits"]
    assert [list(commit["changes"]) for commit in found] == [["sold"]]


# ---- what is refused

BAD_BODIES = [
    (b"", "BAD_REQUEST"),
    (b"{", "BAD_REQUEST"),
    (b"nonsense", "BAD_REQUEST"),
    (b"\xff\xfe", "BAD_REQUEST"),
    (b"[]", "BAD_REQUEST"),
    (b"{}", "BAD_REQUEST"),
    (b'{"operations": 3}', "BAD_REQUEST"),
    (b'{"operations": [{"relation": "price", "op": "insert"}]}', "BAD_REQUEST"),
    (b'{"operations": [{"relation": "price", "op": "grow", "row": ["a", 1]}]}', "BAD_REQUEST"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": "a"}]}', "BAD_REQUEST"),
    (b'{"operations": [], "more": 1}', "BAD_REQUEST"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a"]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a", "b"]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a", 1.5]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a", [1]]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a", 99999999999999999999]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": ["a\\u0000", 1]}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "price", "op": "insert", "row": {"item": "a", "pounds": 1}}]}', "BAD_ROWS"),
    (b'{"operations": [{"relation": "dear", "op": "insert", "row": ["a", 1]}]}', "BASE_CONFLICT"),
    (b"[" * 100_000, "BAD_REQUEST"),
]


@pytest.mark.parametrize(("body", "code"), BAD_BODIES)
def test_a_bad_body_is_refused(server: Server, body: bytes, code: str) -> None:
    before = server.get("/v1").json["commit"]
    check_envelope(server.ask("POST", "/v1/transactions", body), 400, code)
    assert server.get("/v1").json["commit"] == before


BAD_ADDRESSES = [
    ("/nothing", 404, "NO_ROUTE"),
    ("/v1/", 404, "NO_ROUTE"),
    ("/v1/views/", 404, "NO_ROUTE"),
    ("/v1/views/nothing", 404, "UNKNOWN_RELATION"),
    ("/v1/views/%00", 404, "UNKNOWN_RELATION"),
    ("/v1/views/%FF%FE", 404, "UNKNOWN_RELATION"),
    ("/v1/views/nothing/changes", 404, "UNKNOWN_RELATION"),
    ("/v1/views/dear?nothing=1", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?cents=many", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?item=a&item=b", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?limit=0", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?limit=-1", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?limit=1000000", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?as_of=99999999999999999999", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?format=xml", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?item=%ff", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear?where=cents%20%3E", 400, "SYNTAX"),
    ("/v1/views/dear/changes?every=often", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear/changes?mode=loud", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear/changes?since=-3", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear/changes?since=1&snapshot=1", 400, "BAD_ARGUMENT"),
    ("/v1/views/dear/changes?where=price(item,_)", 400, "UNKNOWN_RELATION"),
    ("/v1/commits/99999", 404, "UNKNOWN_COMMIT"),
    ("/v1/commits/0", 400, "BAD_ARGUMENT"),
    ("/v1/commits/x", 400, "BAD_ARGUMENT"),
    ("/v1/commits?view=nothing", 404, "UNKNOWN_RELATION"),
    ("/v1?x=1", 400, "BAD_ARGUMENT"),
]


@pytest.mark.parametrize(("path", "status", "code"), BAD_ADDRESSES)
def test_a_bad_address_is_refused(server: Server, path: str, status: int, code: str) -> None:
    check_envelope(server.get(path), status, code)


def test_other_methods_are_refused(server: Server) -> None:
    answer = server.ask("PATCH", "/v1/views/dear/level")
    check_envelope(answer, 405, "NO_METHOD")
    assert {"GET", "PUT"} <= set(answer.headers["allow"].replace(" ", "").split(","))
    assert server.ask("HEAD", "/v1/views/dear").status == 200


def test_a_name_that_is_near_is_told(server: Server) -> None:
    assert 'Did you mean "dear"?' in server.get("/v1/views/daer").json["error"]["hint"]
    body = {"operations": [{"relation": "prise", "op": "insert", "row": []}]}
    answer = server.post("/v1/transactions", body)
    check_envelope(answer, 404, "UNKNOWN_RELATION")
    assert 'Did you mean "price"?' in answer.json["error"]["hint"]


def test_too_much_is_refused(server: Server) -> None:
    check_envelope(server.ask("POST", "/v1/transactions", b" " * 200_000), 413, "TOO_LARGE")
    many = {"operations": [{"relation": "price", "op": "insert", "row": [f"{n}", n]} for n in range(501)]}
    check_envelope(server.post("/v1/transactions", many), 413, "TOO_LARGE")
    # Without a length the server finds out while it reads.
    chunks = (b" " * 50_000 for _ in range(4))
    answer = server.ask("POST", "/v1/transactions", chunks)  # type: ignore[arg-type]
    check_envelope(answer, 413, "TOO_LARGE")


def test_a_slow_question_is_ended(server: Server) -> None:
    slow = "c = count : { x = range(0, 3000), y = range(0, 3000), z = range(0, 3000), x + y + z = 1 }"
    check_envelope(server.post("/v1/query", {"query": slow}), 503, "QUERY_TOO_SLOW")
    assert server.get("/v1/views/dear?item=ink").status == 200


def test_slow_questions_do_not_delay_streams(server: Server) -> None:
    from concurrent.futures import ThreadPoolExecutor

    slow = "c = count : { x = range(0, 3000), y = range(0, 3000), z = range(0, 3000), x + y + z = 1 }"
    with ThreadPoolExecutor(12) as pool, server.follow("/v1/views/dear/changes?item=prompt") as events:
        answers = [pool.submit(server.post, "/v1/query", {"query": slow}) for _ in range(12)]
        server.commit("price", ["prompt", 333])
        assert events.next().data["inserted"] == [["prompt", 333]]
        assert not all(answer.done() for answer in answers)
    assert {answer.result().code for answer in answers} == {"QUERY_TOO_SLOW"}


# ---- the server itself


def test_health_needs_no_token(server: Server) -> None:
    assert server.get("/healthz", token=None).json["status"] == "ok"


def test_metrics_count(server: Server) -> None:
    for cents in range(4):
        server.commit("price", ["tack", cents], op="upsert")
    text = server.get("/metrics").body.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(lines["viewkeeper_last_commit"]) == server.get("/v1").json["commit"]
    assert int(lines["viewkeeper_commit_seconds_count"]) == int(lines["viewkeeper_commits_total"]) > 3
    assert any(
        line.startswith('viewkeeper_requests_total{method="POST",route="/v1/transactions",status="200"}') for line in lines
    )
    assert server.token not in text


def test_the_index_lists_what_there_is(server: Server) -> None:
    told = server.get("/v1").json
    described = json.loads(server.get("/openapi.json").body)["paths"]
    assert {(route["method"].lower(), route["path"]) for route in told["routes"]} == {
        (method, path) for path, methods in described.items() for method in methods
    }


def test_reading_needs_no_server_packages() -> None:
    import subprocess

    code = "import sys, viewkeeper.cli.app; sys.exit(any(n in sys.modules for n in ('starlette', 'uvicorn', 'httptools')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_packages_are_named(tmp_path: Path) -> None:
    import subprocess

    make_warehouse(tmp_path / "shop")
    code = f"import sys; sys.modules['uvicorn'] = None; sys.argv = ['viewkeeper', 'serve', {str(tmp_path / 'shop')!r}]; from viewkeeper.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.partition(":")[0]) == (1, "error[SERVE_MISSING]")


def test_a_second_server_is_refused(server: Server, tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "viewkeeper", "serve"]
    found = subprocess.run([*command, str(server.path), "--port", "0"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.splitlines()[0].partition(":")[0]) == (1, "error[LOCKED]")
    port = str(server.address[1])
    other = make_warehouse(tmp_path / "other")
    found = subprocess.run([*command, str(other), "--port", port], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.splitlines()[0].partition(":")[0]) == (1, "error[CANNOT_LISTEN]")
