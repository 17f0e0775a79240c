"""``ucfh evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

from ucfh.cli.options import AsJson, ProblemName
from ucfh.cli.printing import print_json
from ucfh.exceptions import InputError


def evaluate(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help="a policy file, .csv or .json, as --policy writes it",
            show_default=False,
        ),
    ],
    problem: ProblemName,
    json: AsJson = False,
) -> None:
    """Compute the exact value of a policy on a problem.

    \b
    Example:
      ucfh learn tutoring --policy tutor.csv && ucfh evaluate tutor.csv tutoring
    """
    from ucfh.policies import ENDINGS, read_policy
    from ucfh.problems import make

    if policy.endswith(".npz"):
        raise InputError(f"{policy} is not a policy: pass a .csv or .json that --policy wrote")
    if not policy.endswith(ENDINGS) and problem.endswith(ENDINGS):
        raise InputError(
            f"{policy} is not a policy file. Fix: name the policy first, "
            f"ucfh evaluate {problem} {policy}"
        )
    mdp = make(problem)
    pi = read_policy(policy, mdp)
    value, optimal = mdp.value(pi), mdp.at_start(mdp.optimal().values)
    deviation = mdp.variance(pi) ** 0.5
    if json:
        print_json(
            {
                "problem": problem,
                "policy": policy,
                "value": value,
                "optimal": optimal,
                "gap": optimal - value,
                "standard_deviation": deviation,
            }
        )
        return
    print(
        f"{policy} earns {value:.6g} per episode on {problem}; the best policy earns {optimal:.6g}"
    )
    print(f"loss {optimal - value:.6g}; standard deviation of one episode's reward {deviation:.4g}")
