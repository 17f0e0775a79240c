"""Who may do what: tokens, sessions of the page, and other sites."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ucfh
from support.command_line import fails, run
from support.services import Local, Reply, local_service
from ucfh.server import events as events_module
from ucfh.server import tokens as tokens_module
from ucfh.server.tokens import READ, WRITE, TokenFile

ASK = "/v1/tasks/t/episodes/e/steps/0"


class Known:
    """A file with a token of each role."""

    def __init__(self, path: Path) -> None:
        self.file = TokenFile(str(path / "tokens.json"), create=True)
        self.write, self.read = self.file.add(WRITE, "shop")[1], self.file.add(READ, "wall")[1]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Known:
    monkeypatch.setattr(tokens_module, "CHECK_EVERY", 0.0)
    return Known(tmp_path)


@pytest.fixture
def local(tmp_path: Path, known: Known) -> Iterator[Local]:
    with local_service(tmp_path, known.file, tasks=["t"]) as found:
        yield found


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookie_of(reply: Reply) -> dict[str, str]:
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0]}


def test_what_each_token_may(local: Local, known: Known) -> None:
    asked, body = ("PUT", ASK, {"state": "x"}), {"state": "x"}
    assert local.send(*asked, **by(known.write)).status == 200
    assert local.send("GET", "/v1/tasks/t", **by(known.read)).status == 200
    refused = local.send("PUT", ASK, body, **by(known.read))
    assert (refused.status, refused.json["detail"]) == (
        403,
        "the token 'wall' is read-only: use another one",
    )
    for wrong in (
        {}, by("nix"), by(""), by(known.write[:-1]), by(known.write + "x"), by("ä"),
        {"Authorization": known.write}, {"Authorization": f"Basic {known.write}"},
    ):  # fmt: skip
        for request in (asked, ("GET", "/v1/tasks/t"), ("GET", "/metrics")):
            reply = local.send(*request, **wrong)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")


def test_nothing_is_said_to_strangers(local: Local) -> None:
    """Neither which tasks there are, nor whether a body would be right."""
    for path in ("/v1/tasks/t", "/v1/tasks/nix"):
        assert local.send("GET", path).status == 401
    assert local.send("PUT", ASK, b"not JSON").status == 401
    for path in ("/", "/page/page.js", "/healthz", "/readyz", "/openapi.json", "/session"):
        assert local.send("GET", path).status == 200


def test_a_session_of_the_page(local: Local, known: Known) -> None:
    begun = local.send("POST", "/session", {"token": known.write})
    assert begun.json["role"] == WRITE
    flags = begun.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    assert "secure" not in flags
    session = cookie_of(begun)
    assert known.write not in str(session)
    assert local.send("GET", "/session", **session).json["role"] == WRITE
    assert local.send("PUT", ASK, {"state": "x"}, **session).status == 200
    ended = local.send("DELETE", "/session", **session)
    assert (ended.json["role"], "Max-Age=0" in ended.headers["set-cookie"]) == (None, True)
    secure = local.send("POST", "/session", {"token": known.read}, X_Forwarded_Proto="https")
    assert "secure" in secure.headers["set-cookie"].lower()
    assert local.send("PUT", ASK, {"state": "x"}, **cookie_of(secure)).status == 403
    assert local.send("POST", "/session", {"token": "nix"}).status == 401
    assert local.send("GET", "/session").json == {"role": None, "needed": True, "until": None}


def test_a_session_ends(local: Local, known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    session = cookie_of(local.send("POST", "/session", {"token": known.write}))
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr("ucfh.server.tokens.time.time", lambda: now + tokens_module.SESSION + 1)
        assert local.send("GET", "/v1/tasks/t", **session).status == 401
    assert local.send("GET", "/v1/tasks/t", **session).status == 200
    known.file.revoke("shop")
    assert local.send("GET", "/v1/tasks/t", **session).status == 401


def test_signing_out_ends_the_session(local: Local, known: Known) -> None:
    """That one alone, and no two are the same."""
    one, two = (cookie_of(local.send("POST", "/session", {"token": known.write})) for _ in "12")
    assert one != two
    local.send("DELETE", "/session", **one)
    assert local.send("GET", "/v1/tasks/t", **one).status == 401
    assert local.send("GET", "/session", **one).json["role"] is None
    assert local.send("GET", "/v1/tasks/t", **two).status == 200
    local.send("DELETE", "/session")
    local.send("DELETE", "/session", Cookie="ucfh_session=x.y.z")


def test_signing_out_ends_the_stream(
    local: Local, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PULSE_SECONDS", 0.05)
    session = cookie_of(local.send("POST", "/session", {"token": known.read}))

    def wanted(pieces: list[bytes]) -> bool:
        if pieces:
            known.file.end(session["Cookie"].partition("=")[2])
        return False

    assert local.run(local.stream("/v1/tasks/t/events", wanted, **session))


def test_a_session_cannot_be_made_up(local: Local, known: Known) -> None:
    text = cookie_of(local.send("POST", "/session", {"token": known.read}))["Cookie"]
    name, _, value = text.partition("=")
    which, until, nonce, signature = value.split(".")
    other = known.file.tokens[0].sha256[:16]
    for made_up in (
        f"{other}.{until}.{nonce}.{signature}", f"{which}.{int(until) + 1}.{nonce}.{signature}",
        f"{which}.{until}.{nonce}0.{signature}", f"{which}.{until}.{nonce}.{signature[:-1]}",
        f"{which}.{until}.{nonce}.", value[::-1], "ä.1.ä", "", "..", "a.b",
    ):  # fmt: skip
        assert local.send("GET", "/v1/tasks/t", Cookie=f"{name}={made_up}").status == 401


def test_a_revoked_token_ends_and_a_new_one_begins(local: Local, known: Known) -> None:
    """Another process changes the file."""
    other = TokenFile(known.file.path)
    other.revoke("shop")
    assert local.send("GET", "/v1/tasks/t", **by(known.write)).status == 401
    _, text = other.add(WRITE, None)
    assert local.send("GET", "/v1/tasks/t", **by(text)).status == 200
    Path(known.file.path).write_text("{")
    assert local.send("GET", "/v1/tasks/t", **by(text)).status == 401


def test_two_who_change_the_file_at_once(tmp_path: Path) -> None:
    """Each opened it before the others wrote: nothing is lost, and what was revoked stays so."""
    path = str(tmp_path / "tokens.json")
    TokenFile(path, create=True).add(WRITE, "old")
    files = [TokenFile(path) for _ in range(6)]
    texts = [files[k].add(WRITE, f"new {k}")[1] for k in range(5)]
    files[5].revoke("old")
    _, last = files[0].add(READ, None)
    found = TokenFile(path)
    assert all(found.find(text) for text in (*texts, last))
    assert "old" not in {x.name for x in found.tokens}


def test_strangers_send_little(local: Local, known: Known) -> None:
    sent = {"token": "x" * 20_000}
    assert local.send("POST", "/session", sent).status == 413
    assert local.send("POST", "/session", sent, **by(known.read)).status == 401


def test_a_file_that_cannot_be_read_is_not_ready(local: Local, known: Known) -> None:
    assert local.send("GET", "/readyz").status == 200
    os.chmod(known.file.path, 0o644)
    assert local.send("GET", "/readyz").status == 503
    assert local.send("GET", "/v1/tasks/t", **by(known.read)).status == 401
    os.chmod(known.file.path, 0o600)
    assert local.send("GET", "/readyz").status == 200


def test_other_sites_change_nothing(local: Local, known: Known) -> None:
    session = cookie_of(local.send("POST", "/session", {"token": known.write}))
    for origin in ("http://evil.com", "null", "http://localhost:99", "http://localhost.evil.com"):
        reply = local.send("PUT", ASK, {"state": "x"}, **session, Origin=origin)
        assert reply.status == 403
    assert local.send("POST", "/session", {"token": known.read}, Origin="null").status == 403
    own = local.send("PUT", ASK, {"state": "x"}, **session, Origin="http://localhost")
    assert own.status == 200


def test_without_tokens_this_machine_alone(tmp_path: Path) -> None:
    with local_service(tmp_path, tasks=["t"]) as local:
        for host in ("localhost", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST"):
            assert local.send("GET", "/v1/tasks/t", Host=host).status == 200
        for host in ("evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "", "[", "10.0.0.1"):
            assert local.send("GET", "/v1/tasks/t", Host=host).status == 403
            assert local.send("GET", "/healthz", Host=host).status == 403
        assert local.send("GET", "/session").json["role"] == WRITE
        assert "set-cookie" not in local.send("POST", "/session", {"token": "x"}).headers


def test_the_file_keeps_no_token(known: Known) -> None:
    path = Path(known.file.path)
    assert known.write not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"key": "00", "tokens": []}', "not a file of tokens"),
        (f'{{"key": "{"00" * 32}", "tokens": [{{"name": "x"}}]}}', "not a file of tokens"),
        (f'{{"key": "{"00" * 32}", "tokens": 7}}', "not a file of tokens"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ucfh.InputError, match=message) as error:
        TokenFile(str(path))
    assert "\n" not in str(error.value)


def test_a_file_that_others_can_read(known: Known) -> None:
    for mode in (0o640, 0o604, 0o666):
        os.chmod(known.file.path, mode)
        with pytest.raises(ucfh.InputError, match="chmod 600"):
            TokenFile(known.file.path)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tokens.json")

    def done(*arguments: str) -> str:
        code, out, err = run(capsys, "token", *arguments, "--file", file)
        assert code == 0
        assert len(err.splitlines()) == (arguments[0] == "create")  # that it is shown once
        return out

    text = done("create", "--name", "shop").strip()
    done("create", "--read-only")
    found = TokenFile(file).find(text)
    assert found is not None
    assert (found.name, found.role) == ("shop", WRITE)
    for listed in (done("list"), done("list", "--json")):
        assert "shop" in listed
        assert "token-1" in listed
        assert text not in listed
    done("revoke", "shop")
    assert [(x.name, x.role) for x in TokenFile(file).tokens] == [("token-1", READ)]
    assert "no token 'nix'" in fails(capsys, "token", "revoke", "nix", "--file", file)
    for name in ("token-1", " "):
        assert "name" in fails(capsys, "token", "create", "--file", file, "--name", name)
    assert "ucfh token create" in fails(capsys, "token", "list", "--file", f"{file}x")
