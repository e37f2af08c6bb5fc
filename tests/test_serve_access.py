"""Who may do what: tokens, grants, tickets. What a token may not read looks as if it did not exist."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving import PATIENCE, Server, make_warehouse, serving

from viewkeeper.serve.accounts import FILE, TICKET_LIFE, TICKET_SECONDS, Accounts
from viewkeeper.serve.grants import Grants
from viewkeeper.serve.settings import Settings, now


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = make_warehouse(tmp_path_factory.mktemp("access") / "shop")
    with serving(path, "--allow-origin", "https://shop.example") as started:
        started.commit("price", ["ink", 250], ["pen", 50])
        started.commit("secret", ["pen", 3], ["ink", 100])
        yield started


@pytest.fixture(scope="module")
def reader(server: Server) -> str:
    """May read two views and write one relation, and nothing else."""
    return server.make_token("reader", read=["dear", "bargain"], write=["price"])


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "viewkeeper", *map(str, arguments)], capture_output=True, text=True, check=False
    )


# ---- tokens

ROUTES = [
    ("GET", "/v1"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("POST", "/v1/transactions"),
    ("POST", "/v1/preview"),
    ("POST", "/v1/definitions"),
    ("GET", "/v1/views"),
    ("GET", "/v1/views/dear"),
    ("GET", "/v1/views/nothing"),
    ("GET", "/v1/views/dear/changes"),
    ("GET", "/v1/views/dear/changes?ticket=vt_wrong"),
    ("GET", "/v1/views/dear/level"),
    ("PUT", "/v1/views/dear/level"),
    ("GET", "/v1/commits"),
    ("GET", "/v1/commits/1"),
    ("POST", "/v1/query"),
    ("POST", "/v1/why"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("DELETE", "/v1/tokens/x"),
    ("POST", "/v1/tickets"),
    ("GET", "/v1/subscriptions"),
    ("DELETE", "/v1/subscriptions/x"),
    ("POST", "/v1/subscriptions/x/ack"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nothing_is_answered_without_a_token(server: Server, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer vk_wrong"}, {"authorization": "Basic eDp5"}, {"authorization": server.token}):
        answer = server.ask(method, path, token=None, headers=headers)
        assert (answer.status, answer.code) == (401, "NO_TOKEN")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_table_above_is_complete(server: Server) -> None:
    told = {(route["method"], route["path"]) for route in server.get("/v1").json["routes"]} - {("GET", "/healthz")}
    shape = lambda path: path.partition("?")[0].count("/")  # noqa: E731
    assert {(m, shape(p)) for m, p in told} == {(m, shape(p)) for m, p in ROUTES}
    assert len(ROUTES) >= len(told)


def test_tokens_are_stored_hashed_and_for_their_owner_only(server: Server) -> None:
    secret = server.make_token("stored", read=["dear"])
    files = [path for path in server.path.iterdir() if path.name.startswith(FILE)]
    assert files
    for file in files:
        assert secret.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0
    assert (server.path / "server.token").stat().st_mode & 0o777 == 0o600
    assert secret not in str(server.get("/v1/tokens").json)


def test_tokens_are_made_listed_and_revoked(server: Server) -> None:
    secret = server.make_token("short", read=["dear"])
    again = server.post("/v1/tokens", {"name": "short", "grants": {}})
    assert (again.status, again.code) == (409, "TOKEN_EXISTS")
    [told] = [token for token in server.get("/v1/tokens").json["tokens"] if token["name"] == "short"]
    assert told["grants"]["read"] == ["dear"]
    with server.follow("/v1/views/dear/changes", token=secret) as events:
        assert server.ask("DELETE", "/v1/tokens/short").status == 200
        event = events.next()
        assert (event.name, event.data["error"]["code"]) == ("end", "TOKEN_ENDED")
    assert server.get("/v1", token=secret).status == 401
    gone = server.ask("DELETE", "/v1/tokens/short")
    assert (gone.status, gone.code) == (404, "UNKNOWN_TOKEN")
    for name in ("", " x", "a\nb", "x" * 101):
        assert server.post("/v1/tokens", {"name": name, "grants": {}}).status == 400
    assert server.post("/v1/tokens", {"name": "x", "grants": {"fly": True}}).status == 400
    assert server.post("/v1/tokens", {"name": "x", "grants": {}, "expires": "soon"}).status == 400


def test_a_token_expires(server: Server) -> None:
    answer = server.post("/v1/tokens", {"name": "brief", "grants": {"read": ["dear"]}, "expires": "3s"}).json
    with server.follow("/v1/views/dear/changes", token=answer["token"]) as events:
        event = events.next()
        assert (event.name, event.data["error"]["code"]) == ("end", "TOKEN_ENDED")
    assert server.get("/v1", token=answer["token"]).status == 401


def test_the_command_line_makes_tokens_while_a_server_runs(server: Server) -> None:
    made = run("token", "create", server.path, "by hand", "--read", "dear", "--write", "price", "--expires", "30d")
    secret = made.stdout.strip()
    assert secret.startswith("vk_")
    assert server.get("/v1", token=secret).json["grants"]["read"] == ["dear"]
    listed = run("token", "list", server.path).stdout
    assert "by hand" in listed and secret not in listed
    with server.follow("/v1/views/dear/changes", token=secret) as events:
        assert run("token", "revoke", server.path, "by hand").stdout == "revoked by hand\n"
        assert events.next().data["error"]["code"] == "TOKEN_ENDED"
    missing = run("token", "revoke", server.path, "by hand")
    assert (missing.returncode, missing.stderr.partition(":")[0]) == (1, "error[UNKNOWN_TOKEN]")


def test_the_admin_token_is_told_once(tmp_path: Path) -> None:
    path = make_warehouse(tmp_path / "shop")
    with serving(path) as server:
        first = [line for line in server.lines if line.startswith("admin token")]
        assert len(first) == 1
    with serving(path, token=server.token) as again:
        assert not [line for line in again.lines if line.startswith("admin token")]
        assert again.get("/v1").json["token"] == "admin"


# ---- grants


def test_what_may_not_be_read_does_not_exist(server: Server, reader: str) -> None:
    nothing, secret = (server.get(f"/v1/views/{name}", token=reader) for name in ("nothings", "secret"))
    assert (secret.status, secret.body.replace(b"secret", b"nothings")) == (nothing.status, nothing.body)
    assert [view["name"] for view in server.get("/v1/views", token=reader).json["views"]] == ["price", "dear", "bargain"]
    for path in (
        "/v1/views/secret",
        "/v1/views/secret/changes",
        "/v1/views/secret/level",
        "/v1/commits?view=secret",
        "/v1/views?name=secret",
    ):
        answer = server.get(path, token=reader)
        assert (answer.status, answer.code) == (404, "UNKNOWN_RELATION"), path
    assert server.post("/v1/tickets", {"view": "secret"}, token=reader).status == 404
    # A name that is near is told only to who may see it.
    assert "secret" in server.get("/v1/views/secrt").json["error"]["hint"]
    assert "secret" not in server.get("/v1/views/secrt", token=reader).json["error"]["hint"]


def test_questions_see_only_what_may_be_read(server: Server, reader: str) -> None:
    assert server.post("/v1/query", {"query": "dear(x, y)"}, token=reader).json["rows"] == [["ink", 250]]
    for query in ("secret(x, m)", "dear(x, _), !secret(x, 3)", "n = count : { secret(_, _) }", "secrt(x, m)"):
        answer = server.post("/v1/query", {"query": query}, token=reader)
        assert (answer.status, answer.code) == (400, "UNKNOWN_RELATION"), query
        assert "Did you mean" not in answer.json["error"]["hint"]
    # A relation that it may write but not read has a name and no rows.
    assert server.post("/v1/query", {"query": "price(x, c)"}, token=reader).status == 400


def test_changes_and_commits_leave_out_what_is_hidden(server: Server, reader: str) -> None:
    body = {"operations": [{"relation": "price", "op": "insert", "row": ["tea", 150]}]}
    answer = server.post("/v1/transactions?changes=rows", body, token=reader).json
    assert list(answer["changes"]) == ["dear"]
    commit = answer["commit"]
    for path in (f"/v1/commits/{commit}?changes=rows", f"/v1/commits/{commit}"):
        assert list(server.get(path, token=reader).json["changes"]) == ["dear"]
    listed = server.get("/v1/commits", token=reader).json["commits"]
    assert {name for one in listed for name in one["changes"]} <= {"dear", "bargain"}
    assert {view["view"] for one in listed for view in one["views"]} <= {"dear", "bargain"}


def test_why_leaves_out_what_is_hidden(server: Server, reader: str) -> None:
    whole = server.post("/v1/why", {"row": 'bargain("pen")'}).json
    assert "secret" in whole["text"]
    answer = server.post("/v1/why", {"row": 'bargain("pen")'}, token=reader)
    assert answer.json["holds"]
    text = answer.body.decode()
    assert "secret" not in text and "price" not in text and "3 < 5" not in text
    absent = server.post("/v1/why", {"row": 'bargain("ink")'}, token=reader)
    assert not absent.json["holds"]
    assert "secret" not in absent.body.decode() and "price" not in absent.body.decode()
    assert server.post("/v1/why", {"row": 'secret("pen", 3)'}, token=reader).code == "UNKNOWN_RELATION"
    shown = server.post("/v1/why", {"row": 'dear("ink", 250)'}, token=server.make_token("both", read=["dear", "price"])).json
    assert 'price("ink", 250)' in shown["text"]


def test_writing_needs_a_grant(server: Server, reader: str) -> None:
    refused = server.commit("dear", ["x", 1], token=reader)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    hidden = server.commit("secret", ["x", 1], token=reader)
    assert (hidden.status, hidden.code) == (404, "UNKNOWN_RELATION")
    assert server.commit("price", ["tin", 20], token=reader).status == 200


def test_why_a_hidden_rule_refuses_is_hidden(server: Server, reader: str) -> None:
    program = '.decl odd(item: symbol) odd(i) :- price(i, c), secret(i, _), c = 13. .integrity odd(level="reject", message="{item} is odd")'
    assert server.post("/v1/definitions", {"program": program}).status == 200
    try:
        told = server.commit("price", ["pen", 13], op="upsert")
        assert (told.status, told.code) == (409, "INTEGRITY_VIOLATED")
        assert told.json["error"]["violations"]["odd"]["rows"] == [["pen"]]
        assert told.json["error"]["violations"]["odd"]["messages"] == ["pen is odd"]
        hidden = server.commit("price", ["pen", 13], op="upsert", token=reader)
        assert (hidden.status, hidden.code) == (409, "HIDDEN_REASON")
        assert b"odd" not in hidden.body
    finally:
        server.post("/v1/definitions", {"drop": "odd"})


def test_what_fails_in_a_hidden_rule_is_hidden(server: Server, reader: str) -> None:
    program = ".decl share(item: symbol, part: number) share(i, p) :- price(i, c), secret(i, m), p = m / (c - 77)."
    assert server.post("/v1/definitions", {"program": program}).status == 200
    try:
        told, hidden = (server.commit("price", ["pen", 77], op="upsert", token=token) for token in (server.token, reader))
        assert (told.status, told.code) == (400, "DIVISION_BY_ZERO")
        assert b"share" in told.body
        assert (hidden.status, hidden.code) == (409, "HIDDEN_REASON")
        assert b"share" not in hidden.body
    finally:
        server.post("/v1/definitions", {"drop": "share"})


def test_a_token_that_sees_nothing(server: Server) -> None:
    token = server.make_token("blind")
    answer = server.post("/v1/query", {"query": "price(x, y)"}, token=token)
    assert (answer.status, answer.code) == (400, "UNKNOWN_RELATION")
    assert str(server.path) not in answer.body.decode()
    assert server.get("/v1/views", token=token).json["views"] == []
    own = server.post("/v1/query", {"query": "x = 1 / 0"}, token=token)
    assert own.code == "DIVISION_BY_ZERO"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/definitions", {"program": ".decl x(a: number)"}),
        ("POST", "/v1/definitions", {"drop": "dear"}),
        ("POST", "/v1/definitions", {"sql": "CREATE TABLE t (a INT)"}),
        ("PUT", "/v1/views/dear/level", {"level": "warn"}),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", {"name": "mine", "grants": {"admin": True}}),
        ("DELETE", "/v1/tokens/admin", None),
        ("GET", "/metrics", None),
    ],
)
def test_the_rest_needs_grants_too(server: Server, reader: str, method: str, path: str, body: object) -> None:
    import json

    answer = server.ask(method, path, None if body is None else json.dumps(body).encode(), token=reader)
    assert (answer.status, answer.code) == (403, "FORBIDDEN")


def test_define_reads_everything_but_writes_only_what_it_may(server: Server) -> None:
    token = server.make_token("definer", define=True)
    assert server.get("/v1/views/secret", token=token).status == 200
    made = server.post("/v1/definitions", {"sql": "CREATE VIEW ones AS SELECT item FROM secret WHERE margin = 3"}, token=token)
    assert made.status == 200
    refused = server.post("/v1/definitions", {"sql": "INSERT INTO secret VALUES ('x', 1)"}, token=token)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    assert server.commit("price", ["x", 1], token=token).status == 403
    assert server.post("/v1/definitions", {"drop": "ones"}, token=token).status == 200


# ---- levels


def test_levels_at_run_time(server: Server) -> None:
    program = ".decl free(item: symbol) free(i) :- price(i, 0)."
    server.post("/v1/definitions", {"program": program})
    server.commit("price", ["gift", 0])
    put = lambda level: server.ask("PUT", "/v1/views/free/level", b'{"level": %s}' % level)  # noqa: E731
    assert put(b'"warn"').json["violated"] == [["gift"]]
    with server.follow("/v1/views/free/changes") as events:
        answer = server.commit("price", ["gift 2", 0]).json
        assert answer["violations"]["free"]["rows"] == [["gift 2"]]
        assert events.next().data["level"] == "warn"
    answer = put(b'"reject"').json
    assert (answer["level"], answer["violated"]) == ("reject", [["gift"], ["gift 2"]])
    refused = server.commit("price", ["gift 3", 0])
    assert (refused.status, refused.code) == (409, "INTEGRITY_VIOLATED")
    assert refused.json["error"]["violations"]["free"]["rows"] == [["gift 3"]]
    assert server.get("/v1/views/free/level").json["level"] == "reject"
    assert put(b"null").json["level"] is None
    assert server.commit("price", ["gift 3", 0]).status == 200
    assert put(b'"loud"').status == 400
    server.post("/v1/definitions", {"drop": "free"})


# ---- tickets


def test_a_ticket_stands_for_a_token(server: Server, reader: str) -> None:
    made = server.post("/v1/tickets", {"view": "dear"}, token=reader)
    assert made.status == 201
    path = f"/v1/views/dear/changes?snapshot=1&ticket={made.json['ticket']}"
    with server.follow(path, token=None) as events:
        assert events.next().name == "snapshot"
    with server.follow(path, token=None, headers={"Last-Event-ID": "3"}) as events:  # the browser comes back
        assert events.next(skip=()).name in ("change", "heartbeat")
    assert server.get(f"/v1/views/bargain/changes?ticket={made.json['ticket']}", token=None).status == 401
    assert server.get(f"/v1/views/dear?ticket={made.json['ticket']}", token=None).status == 401


def test_tickets_expire(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.create("one", Grants(read=("v",)))
    token = accounts.named("one")
    assert token is not None
    late, used = accounts.create_ticket(token, "v", 1000.0), accounts.create_ticket(token, "v", 1000.0)
    assert accounts.use_ticket(late, "v", 1001.0 + TICKET_SECONDS) is None
    assert accounts.use_ticket(used, "v", 1000.0 + TICKET_SECONDS) == token
    assert accounts.use_ticket(used, "v", 1000.0 + TICKET_SECONDS + TICKET_LIFE - 1) == token
    assert accounts.use_ticket(used, "v", 1001.0 + TICKET_SECONDS + TICKET_LIFE) is None
    accounts.revoke("one")
    assert accounts.use_ticket(used, "v", 1002.0) is None
    accounts.close()


def test_a_token_that_has_expired_is_none(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    secret = accounts.create("old", Grants(), now())
    assert accounts.find(secret) is None
    assert accounts.named("old") is None
    assert [token.name for token in accounts.tokens()] == ["old"]
    accounts.close()


# ---- where it listens, and to whom


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_beyond_this_machine_only_with_tls(tmp_path: Path, host: str) -> None:
    from viewkeeper.errors import StoreError
    from viewkeeper.serve.running import check_host

    with pytest.raises(StoreError) as refused:
        check_host(Settings(host=host))
    assert refused.value.code == "INSECURE_HOST"
    check_host(Settings(host=host, insecure=True))
    for loopback in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        check_host(Settings(host=loopback))


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    path, other = make_warehouse(tmp_path / "shop"), tmp_path / "other.pem"
    other.write_text("nonsense")
    for file in (other, tmp_path / "missing.pem"):
        found = run("serve", path, "--port", 0, "--certfile", file)
        assert (found.returncode, found.stderr.partition(":")[0]) == (1, "error[BAD_FILE]")


def test_tls(tmp_path: Path) -> None:
    """With a certificate it speaks TLS and nothing else."""
    import http.client
    import shutil
    import ssl

    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True, env={**os.environ, "OPENSSL_CONF": os.devnull, "RANDFILE": str(tmp_path / "rnd")},
    )  # fmt: skip
    path = make_warehouse(tmp_path / "shop")
    with serving(path, "--certfile", str(cert), "--keyfile", str(key)) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(*server.address, context=context, timeout=PATIENCE)
        connection.request("GET", "/v1", headers=server.headers())
        assert connection.getresponse().status == 200
        connection.close()
        with socket.create_connection(server.address, timeout=PATIENCE) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in plain.recv(100)


def test_pages_of_other_origins_may_ask_only_if_allowed(server: Server) -> None:
    for origin, allowed in (("https://shop.example", True), ("https://evil.example", False)):
        answer = server.get("/v1/views/dear", headers={"origin": origin})
        assert ("access-control-allow-origin" in answer.headers) is allowed
        asked = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        assert (server.ask("OPTIONS", "/v1/tickets", token=None, headers=asked).status == 200) is allowed
