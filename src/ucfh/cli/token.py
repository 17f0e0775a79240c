"""``ucfh token``: its commands."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json, print_table
from ucfh.server.tokens import READ, WRITE, TokenFile

FileName = Annotated[
    str, typer.Option("--file", help="the file that keeps the tokens", show_default=False)
]


def token() -> None:
    """Create and revoke tokens, which give programs and people access to a service.

    \b
    Examples:
      ucfh token create --file tokens.json --name shop
      ucfh token create --file tokens.json --name wall-screen --read-only
      ucfh token list --file tokens.json
      ucfh token revoke shop --file tokens.json
    """


def create(
    file: FileName,
    name: Annotated[
        str | None, typer.Option(help="whose it is; default: token-1, token-2, ...")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="give read access only")] = False,
) -> None:
    """Create a token and print it, once.

    The file stores only a hash of it. The file is created if it does not exist, readable only by
    you. A service that uses the file accepts the new token within a second.
    """
    token, text = TokenFile(file, create=True).add(READ if read_only else WRITE, name)
    print(text)
    print(f"ucfh: token {token.name!r}, shown only this once: keep it now", file=sys.stderr)


def list_tokens(file: FileName, json: AsJson = False) -> None:
    """List the names, roles and creation times of the tokens of a file."""
    tokens = TokenFile(file).tokens
    if json:
        print_json([{"name": x.name, "role": x.role, "made": x.made} for x in tokens])
        return
    print_table(
        [{"header": "name"}, {"header": "role"}, {"header": "made"}],
        [[x.name, x.role, f"{datetime.fromtimestamp(x.made):%Y-%m-%d %H:%M}"] for x in tokens],
    )


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the token's name")],
    file: FileName,
) -> None:
    """Revoke a token and all its sessions, within a second."""
    TokenFile(file).revoke(name)


PARTS = {"create": create, "list": list_tokens, "revoke": revoke}
