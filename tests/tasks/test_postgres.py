"""The store in PostgreSQL: databases that are none, versions, lost connections, locks, secrets."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ucfh
from support.command_line import fails, run
from support.stores import QUICK, Proxy, Server
from ucfh.cli.printing import NOT_CERTIFIED
from ucfh.tasks import postgres_schema
from ucfh.tasks.postgres import PostgresStore
from ucfh.tasks.postgres_schema import SCHEMES, masked
from ucfh.tasks.sql_schema import VERSION
from ucfh.tasks.store import Transaction
from ucfh.tasks.task import Task

SHOP: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5, "planning": "off"}
NUMBERS = count()


@pytest.fixture
def address(postgres: Server) -> str:
    """An empty schema, without tables."""
    return postgres.address(postgres.make_schema(f"own{next(NUMBERS)}"))


@pytest.fixture
def task(address: str) -> Any:
    with open_shop(address) as task:
        yield task


@pytest.fixture
def admin(address: str) -> Iterator[Any]:
    """A connection of somebody else to the same schema."""
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def open_shop(address: str) -> Task:
    return ucfh.open_task(address, **SHOP)


def refused(call: Any, kind: type[ucfh.TaskError] = ucfh.StoreError) -> str:
    """The message of a call that is refused, in one line."""
    with pytest.raises(kind) as found:
        call()
    assert type(found.value) is kind
    message = str(found.value)
    assert "\n" not in message
    return message


def tables(admin: Any) -> set[str]:
    found = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname=current_schema()")
    return {name for (name,) in found}


# databases


def test_a_store_is_not_made_by_looking_for_it(address: str, admin: Any) -> None:
    said = refused(lambda: ucfh.open_task(address, planning="off"))
    assert "has no tables of tasks" in said
    assert tables(admin) == set()


def test_tables_of_another_program_are_left_alone(address: str, admin: Any) -> None:
    admin.execute("CREATE TABLE tasks (mine text); INSERT INTO tasks VALUES ('precious')")
    assert "tables of another program (tasks): use another" in refused(lambda: open_shop(address))
    assert tables(admin) == {"tasks"}
    assert admin.execute("SELECT * FROM tasks").fetchall() == [("precious",)]


def test_tables_of_another_program_that_come_first_are_noticed(
    postgres: Server, address: str, admin: Any
) -> None:
    open_shop(address).close()
    other = postgres.make_schema(f"other{next(NUMBERS)}")
    admin.execute(f"CREATE TABLE {other}.events (x text)")
    (own,) = admin.execute("SELECT current_schema()").fetchone()
    both = postgres.address(f"{other},{own}")
    assert "tables of another program (events)" in refused(lambda: open_shop(both))
    admin.execute(f"DROP TABLE {other}.events")
    with open_shop(both) as task:  # found where they are
        task.ask("s", "e")
    assert admin.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_a_search_path_to_nowhere(postgres: Server) -> None:
    where = postgres.address("no_such_schema").replace("%2Cpg_catalog", "")
    assert "has no schema in its search_path: create one" in refused(lambda: open_shop(where))


def test_threads_that_create_a_store_at_once(address: str) -> None:
    found: list[Any] = []

    def work(k: int) -> None:
        try:
            with open_shop(address) as task:
                found.append(task.ask("s", f"e{k}").t)
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0, 0, 0, 0]
    with open_shop(address) as task:
        assert task.store.tasks() == ["task"]
        assert task.status().begun == 4


def test_somebody_who_may_only_read(address: str, task: Task, admin: Any) -> None:
    task.ask("s", "e")
    role = f"reader{next(NUMBERS)}"
    (own,) = admin.execute("SELECT current_schema()").fetchone()
    admin.execute(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {own} TO {role};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {own} TO {role}"
    )
    with open_shop(address.replace("user=ucfh", f"user={role}")) as reader:
        assert reader.status().begun == 1
        assert "cannot be written (permission denied" in refused(lambda: reader.ask("s", "e2"))
        refused(reader.store.check_ready)
    admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refused(lambda: open_shop("postgresql://host/name"))
    assert said.endswith('pip install "psycopg[binary]"')


# versions


def test_a_store_of_another_version_is_refused(address: str, task: Task, admin: Any) -> None:
    for version in (2, VERSION + 1):
        admin.execute(f"UPDATE ucfh_schema SET version = {version}")
        said = refused(lambda: open_shop(address))
        assert f"has tables of version {version}, and this version of ucfh reads" in said
    assert task.ask("s", "e").t == 0  # who has it open goes on


# connections


def end_connections(admin: Any) -> int:
    """As a restart of the database does."""
    return len(
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name='ucfh' AND pid != pg_backend_pid()"
        ).fetchall()
    )


def test_connections_that_are_lost_are_made_again(task: Task, admin: Any) -> None:
    decision = task.ask("s", "e")
    assert end_connections(admin) >= 2
    assert task.status().begun == 1
    assert task.tell(decision, reward=0, state="s") is not None
    assert end_connections(admin) >= 2
    assert [x["t"] for x in task.decisions("all")] == [0, 1]
    assert task.check() == []


def test_a_connection_that_is_lost_amid_a_call(task: Task, admin: Any) -> None:
    """The call is made again as a whole, with what it had found out forgotten."""
    tries = []

    def twice(tx: Transaction, serving: Any) -> Any:
        tries.append(tx.now)
        answer = serving.ask(tx, "e", f"found at try {len(tries)}")
        if len(tries) == 1:
            end_connections(admin)
            tx.last("e")
        return answer

    assert task.write(twice).state == "found at try 2"
    assert len(tries) == 2
    assert task.states.labels[1:] == ["found at try 2"]
    assert task.status().begun == 1
    assert task.check() == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_is_lost_at_the_commit(
    postgres: Server, address: str, moment: str
) -> None:
    """Nobody knows whether it was written: the call is made again, and finds what it did."""
    open_shop(address).close()
    with Proxy(postgres) as proxy:
        with open_shop(address.replace(str(postgres.folder), str(proxy.folder))) as task:
            proxy.cut = moment
            decision = task.ask("s", "e")
            proxy.cut = moment
            later = task.tell(decision, reward=0.5, state="new")
            proxy.cut = moment
            task.write(lambda tx, _: tx.add_error(ucfh.tasks.errors.ErrorRecord("x", "e", 0, {})))
            assert task.planner.step()  # the right to plan is had from now on
            task.tell(("e", 1), reward=0.5, done=True)
            proxy.cut = moment
            assert task.planner.step()
            assert proxy.cut is None
            proxy.cut = moment
            with pytest.raises(ucfh.Conflict):
                task.tell(decision, reward=0.6, state="new")
            assert later is not None
            assert (decision.t, later.t) == (0, 1)
            assert [x["kind"] for x in task.faults()] == ["x", "outcome"]
            assert [x.number for x in task.store.plans(task.number, 0)] == [1, 2]
            assert task.planner.error is None
            assert task.check() == []
        with open_shop(address) as again:
            assert again.store.last_seq(again.number) == 4
            assert again.ask("new", "e", t=1) == later


def test_how_often_the_database_is_waited_for(postgres: Server, address: str) -> None:
    open_shop(address).close()
    with (
        Proxy(postgres) as proxy,
        open_shop(address.replace(str(postgres.folder), str(proxy.folder))) as task,
    ):
        task.ask("s", "first")

        def turns(call: Any) -> int:
            before = proxy.turns
            call()
            return proxy.turns - before

        assert turns(lambda: task.ask("s", "e")) == 2  # what is there; what is new, and its commit
        assert turns(lambda: task.tell(("e", 0), reward=0, state="s")) == 2
        assert turns(lambda: task.ask("s", "e")) == 2
        calls = [task.asking("s", f"e{k}") for k in range(10)]
        assert turns(lambda: task.serve(calls)) == 11
        assert turns(task.store.progress) == 1


def test_a_database_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(QUICK)
    try:
        with open_shop(server.address()) as task:
            decision = task.ask("s", "e")
            server.stop()
            monkeypatch.setattr(postgres_schema, "PATIENCE", 0.2)
            for call in (
                lambda: task.tell(decision, reward=0, state="s"),
                task.status,
                task.store.check_ready,
                lambda: open_shop(server.address()),
            ):
                assert "cannot be reached" in refused(call, ucfh.StoreBusy)
            starting = threading.Timer(0.3, server.start)
            starting.start()
            monkeypatch.setattr(postgres_schema, "PATIENCE", 30.0)
            later = task.tell(decision, reward=0, state="s")  # waits until it is there
            starting.join()
            assert later is not None
            assert task.check() == []
    finally:
        server.remove()


def test_nothing_is_left_in_a_session(address: str) -> None:
    """A pooler may give each transaction another one."""
    with open_shop(address) as task:
        for k in range(20):
            task.tell(task.ask("s", f"e{k}"), reward=0, state="s")
        store = task.store
        assert isinstance(store, PostgresStore)
        with psycopg.connect(address, application_name="ucfh") as fresh:
            before = fresh.execute(SETTINGS).fetchall()
        for line in (*store._writers, *store._readers):
            if line.connection is not None:
                run = line.connection.execute
                assert run("SELECT * FROM pg_prepared_statements").fetchall() == []
                assert run("SELECT * FROM pg_locks WHERE locktype='advisory'").fetchall() == []
                assert run(SETTINGS).fetchall() == before


SETTINGS = "SELECT name, setting FROM pg_settings ORDER BY name"


def test_commits_are_synchronised_whatever_the_default_is(address: str) -> None:
    weak = address.replace("search_path", "synchronous_commit%3Doff%20-csearch_path")
    with open_shop(weak) as task:

        def shown(tx: Transaction, _: Any) -> Any:
            return tx._read("SHOW synchronous_commit", ())  # type: ignore[attr-defined]

        assert task.write(shown) == [("on",)]
        assert task.store.query("SHOW synchronous_commit") == [("off",)]  # type: ignore[attr-defined]


# locks and disks


def test_a_task_that_others_have_locked(
    task: Task, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_schema, "PATIENCE", 0.2)
    assert isinstance(task.store, PostgresStore)
    key = task.store._key, task.number
    admin.execute("SELECT pg_advisory_lock(%s::int4, %s::int4)", key)
    assert "is locked by others" in refused(lambda: task.ask("s", "e"), ucfh.StoreBusy)
    assert task.status().begun == 0  # reading goes on
    admin.execute("SELECT pg_advisory_unlock(%s::int4, %s::int4)", key)
    assert task.ask("s", "e").t == 0


def test_tasks_do_not_wait_for_each_other(address: str, admin: Any) -> None:
    with open_shop(address) as one, ucfh.open_task(address, "two", **SHOP) as two:
        assert isinstance(one.store, PostgresStore)
        admin.execute("SELECT pg_advisory_lock(%s::int4, %s::int4)", (one.store._key, one.number))
        assert two.ask("s", "e").t == 0


def test_a_full_disk_rolls_back_and_says_so(task: Task, admin: Any) -> None:
    admin.execute(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON waiting EXECUTE FUNCTION fill()"
    )
    said = refused(lambda: task.ask("new", "e"), ucfh.StoreFull)
    assert "disk is full, and nothing was written" in said
    assert task.status().begun == 0  # reading goes on
    assert task.states.labels[1:] == []
    admin.execute("DROP TRIGGER full_disk ON waiting")
    assert task.ask("new", "e").t == 0
    assert task.check() == []


# secrets

PIECES = ("Zqx", "Jvk", "żółć")
SIGNS = st.text(st.sampled_from("@:/?&=#%+ \\'\"[]0"), max_size=2)


@settings(max_examples=60)
@given(SIGNS, SIGNS, st.booleans(), st.booleans())
def test_no_password_is_shown(one: str, two: str, quoted: bool, in_query: bool) -> None:
    """Not even of one that is not quoted as it should be, and taken apart."""
    password = PIECES[0] + one + PIECES[1] + two + PIECES[2]
    secret = quote(password, safe="") if quoted else password
    who, more = ("", f"&password={secret}") if in_query else (f"user:{secret}@", "")
    address = f"postgresql://{who}/name?host=/nowhere{more}"
    with pytest.raises(ucfh.TaskError) as found:
        open_shop(address)
    assert all(piece not in str(found.value) for piece in (*PIECES, quote(PIECES[2])))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:sesame@h/db", "postgresql://u:***@h/db"),
        ("postgres://u:sesame@sesame@h/db?x=y", "postgres://u:***@h/db?x=y"),
        ("postgresql://h/db?PASSWORD=sesame&port=5", "postgresql://h/db?PASSWORD=***&port=5"),
        ("postgresql://h/db?password=ses&ame=x", "postgresql://h/db?password=***"),
        ("postgresql://h/db?p%61ssword=sesame", "postgresql://h/db?p%61ssword=***"),
        ("postgresql://h/db?sslpassword=sesame", "postgresql://h/db?sslpassword=***"),
        ("postgresql://h:5432/db?password=ses@sesame", "postgresql://h:***"),
        ("PostgreSQL://u:sesame@h/db", "PostgreSQL://u:***@h/db"),
        (" postgresql://u:sesame@h/db", " postgresql://u:***@h/db"),
        ("postgresql+psycopg://u:sesame@h/db", "postgresql+psycopg://u:***@h/db"),
        ("postgresql:/u:sesame@h/db", "postgresql:/u:***@h/db"),
        ("postgresql:u:sesame@h/db", "postgresql:u:***@h/db"),
        ("host=h password=sesame dbname=x", "host=h password=*** dbname=x"),
        ("host=h PASSWORD = 'sesame sesame' dbname=x", "host=h PASSWORD = *** dbname=x"),
    ],
)
def test_passwords_are_masked_in_every_form(
    address: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert masked(address) == shown
    if not address.startswith(SCHEMES):
        assert shown.strip() in fails(capsys, "task", "status", address)
        with pytest.raises(ucfh.StoreError, match="is not the address"):
            open_shop(address)


def test_an_address_is_shown_without_its_password(address: str) -> None:
    with open_shop(f"{address}&password=sesame") as task:
        shown = [task.store.name, repr(task), str(task.status()), task.status().store]
    assert all("sesame" not in text and "password=***" in text for text in shown)
    wrong = f"{address}&password=sesame".replace("user=ucfh", "user=nobody")
    assert "sesame" not in refused(lambda: open_shop(wrong), ucfh.StoreBusy)


def test_commands_show_an_address_without_its_password(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = f"{address}&password=sesame"
    for words in (
        ["task", "create", secret, "--actions", "a,b", "--horizon", "2", "--epsilon", "0.5"],
        ["ask", secret, "s", "--episode", "e"],
        ["tell", secret, "--episode", "e", "--step", "0", "--reward", "0.5", "--done"],
        *(["task", what, secret] for what in ("list", "status", "decisions", "faults", "expire")),
        *(["task", what, secret] for what in ("certificate", "check")),
        *(["task", what, secret, "--json"] for what in ("list", "status", "check")),
    ):
        code, out, err = run(capsys, *words)
        assert code in (0, NOT_CERTIFIED), (words, out, err)
        assert "sesame" not in out + err
