"""``ucfh act``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json, printable


def act(
    policy: Annotated[
        str,
        typer.Argument(metavar="POLICY", help="a policy file, .csv or .json", show_default=False),
    ],
    state: Annotated[
        str, typer.Option(help="the state, by its name in the file", show_default=False)
    ],
    t: Annotated[
        int | None,
        typer.Option(
            "--t",
            help="the step, counted as in the file; may be left out if the policy is the same at "
            "all steps",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Print the action of a policy in a state at a step.

    The policy is a file that --policy of certify, learn or plan wrote.

    \b
    Examples:
      ucfh act shop-policy.csv --state browsing --t 3
      ucfh act shop-policy.json --state browsing --t 3 --json
    """
    from ucfh._utils.files import naming
    from ucfh.policies import read_named

    named = read_named(policy)
    with naming(policy):
        action = named.act(state, t)
    if json:
        print_json({"policy": policy, "t": t, "state": state, "action": action})
    else:
        print(printable(str(action)) if sys.stdout.isatty() else action)
