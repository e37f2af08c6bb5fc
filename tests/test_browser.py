"""The browser example in a real browser: a table that follows a view, also when the server is killed."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.chromium import BINARY, chromium
from tests.served import ServerProcess

import viewkeeper
from viewkeeper.client import connect

PAGE = Path(__file__).parent.parent / "examples" / "browser"
PROGRAM = """
.decl price(item: symbol, cents: number) key(item)
.decl dear(item: symbol, cents: number)
dear(i, c) :- price(i, c), c >= 100.
"""
ROWS = "[...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.textContent).join('=')).sort().join(' ')"

pytestmark = pytest.mark.skipif(BINARY is None, reason="there is no chromium; Debian's package chromium has it")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def pages() -> Iterator[str]:
    """Whoever serves the page is another origin than the server of the views."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(PAGE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_page_loads_nothing_from_elsewhere() -> None:
    text = (PAGE / "live.html").read_text(encoding="utf-8")
    assert "src=" not in text and "href=" not in text and "@import" not in text
    assert "innerHTML" not in text


def test_a_live_table(tmp_path: Path) -> None:
    with viewkeeper.open(tmp_path / "shop", create=True) as shop:
        shop.define(PROGRAM)
        shop.load("price", [("ink", 120), ("pen", 80), ("<b>lamp</b>", 900)])
    with (
        pages() as origin,
        ServerProcess(tmp_path / "shop", "--heartbeat", "200ms", "--allow-origin", origin) as server,
        connect(server.url, server.token) as client,
        chromium(tmp_path) as page,
    ):
        asked = urlencode({"url": server.url, "view": "dear", "token": server.token})
        page.open(f"{origin}/live.html#{asked}")
        page.wait_until("document.getElementById('state')?.textContent === 'live'")
        page.wait_until(f"{ROWS} === '<b>lamp</b>=900 ink=120'")
        assert server.token not in page.ask("location.href")
        assert page.ask("document.getElementById('head').textContent") == "itemcents"

        client.commit(upserts={"price": [("pen", 180), ("ink", 90)]})
        page.wait_until(f"{ROWS} === '<b>lamp</b>=900 pen=180'")
        assert page.ask("document.getElementById('change').textContent") == "+1 −1"

        page.ask("window.kept = document.querySelector('#rows tr')")
        server.kill()
        page.wait_until("document.getElementById('state').textContent === 'reconnecting'")
        server.start()
        done = client.commit(inserts={"price": [("desk", 5000)]})
        page.wait_until(f"{ROWS} === '<b>lamp</b>=900 desk=5000 pen=180'")
        page.wait_until(f"document.getElementById('commit').textContent === '{done.number}'")
        # It went on where it was: what did not change is the same line of the table.
        assert page.ask("document.contains(window.kept)")
        assert page.ask("document.getElementById('count').textContent") == "3"

        client.drop("dear")
        page.wait_until("document.getElementById('state').className === 'stopped'")


def test_a_bad_token_is_told(tmp_path: Path) -> None:
    with viewkeeper.open(tmp_path / "shop", create=True) as shop:
        shop.define(PROGRAM)
    with pages() as origin, ServerProcess(tmp_path / "shop", "--allow-origin", origin) as server, chromium(tmp_path) as page:
        page.open(f"{origin}/live.html#{urlencode({'url': server.url, 'view': 'dear', 'token': 'vk_wrong'})}")
        page.wait_until("document.getElementById('state')?.className === 'stopped'")
        page.wait_until("document.getElementById('state').textContent.includes('token')")
