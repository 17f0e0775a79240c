"""``ucfh serve``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ucfh.cli.task_options import StoreFile
from ucfh.exceptions import InputError

TRY_AGAIN = 75
"""The exit code if the store is temporarily unavailable."""


def serve(
    store: StoreFile,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="port to listen at; 0: any that is free")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="address to listen at; another than this machine needs tokens")
    ] = "127.0.0.1",
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="let only those in who have a token of this file (see: ucfh token create)",
            show_default=False,
        ),
    ] = None,
    no_planning: Annotated[
        bool, typer.Option("--no-planning", help="leave planning to other processes")
    ] = False,
) -> None:
    """Serve live tasks over HTTP, with a dashboard.

    Prints the address of the dashboard; then, on stderr, a line of JSON for each request. The store
    is created if it does not exist; tasks are created over HTTP, or with ucfh task create. Ctrl-C
    ends it: all acknowledged requests are durable.

    \b
    Examples:
      ucfh task create calls.db --actions call,mail --horizon 8 --epsilon 0.2
      ucfh serve calls.db
      ucfh serve calls.db --host 0.0.0.0 --token-file tokens.json
      curl -X PUT http://127.0.0.1:8765/v1/tasks/task/episodes/customer-17/steps/0 \\
          -H "Content-Type: application/json" -d '{"state": "new"}'
    """
    try:
        from ucfh.server import server
    except ModuleNotFoundError:
        raise InputError(
            'ucfh serve needs the packages of the extra "serve", which are not installed. '
            'Fix: pip install "ucfh[serve]"'
        ) from None
    from ucfh.server.tokens import TokenFile
    from ucfh.tasks.errors import StoreBusy
    from ucfh.tasks.opening import open_store

    tokens = None if token_file is None else TokenFile(token_file)
    server.check_host(host, tokens)
    with server.listen(host, port) as bound:
        try:
            opened = open_store(store, create=True)
        except StoreBusy as error:  # a database that is starting: try again later
            print(f"ucfh: {error}", file=sys.stderr)
            raise typer.Exit(TRY_AGAIN) from None
        try:
            server.serve(opened, bound, tokens, planning=not no_planning)
        finally:
            opened.close()
