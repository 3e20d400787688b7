"""Requests and answers that no page of ours sends: each ends in a refusal or in one
sentence."""

from __future__ import annotations

import json
import socket
import threading
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES
from stub_browser import fake_browser

import onnxgather as og
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.elsewhere.browser import Handler, Site
from onnxgather.core.execution.elsewhere.hosts import web_host
from onnxgather.core.execution.elsewhere.worker import Ran, Worker
from onnxgather.core.execution.providers import WEB_PROVIDERS
from onnxgather.core.execution.runtime import NotRunError, RefusedError

MANY = pytest.mark.parametrize(
    "count", [300, pytest.param(5_000, marks=pytest.mark.slow)]
)


def mutated(random: Random, content: bytes) -> bytes:
    """Bytes that differ in one to three places."""
    found = bytearray(content)
    for _ in range(random.randint(1, 3)):
        start = random.randrange(len(found) + 1)
        end = min(len(found), start + random.choice([0, 1, 1, 2, 8, 60]))
        word = random.choice(
            [b"", b"\0", b"-1", b"999999999999", b"\r\n", b"[", b'"', b"/", b"\xff"]
        )
        found[start:end] = word * random.choice([1, 1, 1, 50])
    return bytes(found)


@MANY
def test_no_request_but_the_pages_is_answered(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def fail(why: str) -> NoReturn:
        ended.append(why)
        raise ConnectionError

    monkeypatch.setattr("onnxgather.core.execution.elsewhere.browser.fail", fail)
    monkeypatch.setattr(ThreadingHTTPServer, "handle_error", lambda *_: None)  # type: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(Handler, "timeout", 1)
    fake_browser(tmp_path, DATA)
    folder = tmp_path / "onnxgather/web/node_modules/onnxruntime-web"
    Handler.site = Site(folder, WEB_PROVIDERS["web-wasm"])
    Handler.site.requests.put(b"the secret request")
    random = Random(26)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        for k in range(count):
            # The secret is a wrong one in two of three, else the Host or the Origin is
            # wrong.
            secret = Handler.site.secret if k % 3 == 0 else mutated_secret(random)
            other = random.choice(
                ["Host: evil.example", f"Host: {host}\r\nOrigin: null"]
            )
            head = other if k % 3 == 0 else f"Host: {host}"
            verb = random.choice(["GET", "POST", "PUT"])
            name = random.choice(["next", "answer", "broken", "alive", ""])
            text = (
                f"{verb} /{secret}/{name} HTTP/1.1\r\n{head}\r\nContent-Length:"
                " 2\r\n\r\n{}"
            )
            sent = text.encode()
            sent = mutated(random, sent) if k % 3 else sent
            with socket.create_connection(
                ("127.0.0.1", server.server_port), timeout=5
            ) as connection:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                got = b"".join(iter(partial(received, connection), b""))
            assert b"secret request" not in got, sent
            assert b" 200 " not in got.split(b"\r\n")[0], sent
        server.shutdown()
    assert not ended
    assert Handler.site.requests.get_nowait() == b"the secret request"
    assert Handler.site.answers.empty()


def mutated_secret(random: Random) -> str:
    """The secret, with one letter that is another, or a part of it."""
    secret = Handler.site.secret
    at = random.randrange(len(secret))
    return random.choice(
        [secret[:at], secret[:at] + "." + secret[at + 1 :], secret + "A", ""]
    )


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(2**16)
    except ConnectionError:
        return b""


def answered(sent: bytes, *_: object) -> bytes:
    """Answer a request."""
    return sent


@MANY
def test_every_answer_of_a_page_ends_in_an_output_or_a_sentence(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, model = Random(27), og.to_onnx(DESC).SerializeToString()
    output = DATA[:, [2, 0]]
    node = {"name": "g", "operator": "Gather", "provider": "CPUExecutionProvider"}
    answers: list[dict[str, Any]] = [
        {"placed": 3, "outputs": [["float32", [4, 2], 0]]},
        {"placed": 3, "outputs": ["the shader does not compile"]},
        {"not_run": ["elsewhere", "g (Gather) runs elsewhere", node]},
        {"refused": "no such operator"},
    ]
    worker = Worker("", 5, web_host(WEB_PROVIDERS["web-wasm"]))
    monkeypatch.setattr(worker, "_start", lambda: None)
    feeds = [{"InputTensor": DATA, "IndicesTensor": INDICES}]
    kinds: set[str] = set()
    longest = 0
    for _ in range(count):
        whole = json.dumps(random.choice(answers)).encode() + b"\n" + output.tobytes()
        sent = mutated(random, whole)
        monkeypatch.setattr(worker, "_answer", partial(answered, sent))
        try:
            ran = worker.run(
                model, {"provider": "CPUExecutionProvider", "threads": 1}, feeds
            )
        except (OnnxGatherError, NotRunError, RefusedError) as error:
            kinds.add(type(error).__name__)
            longest = max(longest, len(str(error)))
        else:
            kinds.add("Ran")
            assert isinstance(ran, Ran)
            assert all(isinstance(one, str | np.ndarray) for one in ran.outputs)
    assert longest < 2_000
    assert kinds == {"NoAnswerError", "NotRunError", "RefusedError", "Ran"}
