"""Every learner by name, and how to make one.

A learner's class says in its attributes ``reference``, ``setting``, ``guarantee`` and ``constants``
where it comes from, what it was made for, what is proved and where its constants come from; its
constructor takes

    (problem, epsilon, delta, episodes, scale=1.0, ...)

and refuses, by an `InputError` with the reason, a problem that does not fit its setting.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any

from ucfh.agents.base import Agent
from ucfh.errors import InputError, check_type, unknown
from ucfh.problem import MDP, Problem, as_problem, check_mdp

AGENTS = {
    "ucfh": "ucfh:UCFH",
    "certified-ucfh": "certified:CertifiedUCFH",
    # named in the paper
    "rmax": "rmax:RMax",
    "kakade": "rmax:Kakade",
    "mbie": "mbie:MBIE",
    "mbie-eb": "mbie:MBIEBonus",
    "delayed-q": "delayed_q:DelayedQ",
    "ucrl2": "ucrl:UCRL2",
    "ucrl-gamma": "ucrl:UCRLGamma",
    "mormax": "mormax:MoRMax",
    "beb": "mbie:BEB",
    "auer-ortner": "ucrl:AuerOrtner",
    "fiechter": "fiechter:Fiechter",
    "reveliotis": "reveliotis:Reveliotis",
    "phased-q": "generative:PhasedQLearning",
    "indirect": "generative:Indirect",
    "azar": "generative:Azar",
    # after it
    "psrl": "psrl:PSRL",
    "ucbvi-ch": "ucbvi:UCBVI",
    "ucbvi-bf": "ucbvi:UCBVIBernstein",
    "ubev": "ubev:UBEV",
    "orlc": "orlc:ORLC",
    "euler": "euler:EULER",
    "mvp": "mvp:MVP",
    "ucb-h": "qlearning:UCBH",
    "ucb-b": "qlearning:UCBB",
    "bpi-ucrl": "bpi_ucrl:BPIUCRL",
    "bpi-ucbvi": "bpi_ucbvi:BPIUCBVI",
    "rf-ucrl": "reward_free:RFUCRL",
    "rf-express": "reward_free:RFExpress",
    "opsrl": "psrl:OPSRL",
    "eqo": "eqo:EQO",
    "rlsvi": "rlsvi:RLSVI",
    "bayes-ucbvi": "bayes_ucbvi:BayesUCBVI",
    "q-early-settled": "q_early_settled:QEarlySettled",
    "eprl": "eprl:EPRL",
    # baselines
    "epsilon-greedy": "baselines:EpsilonGreedy",
    "uniform": "baselines:Uniform",
    "optimal": "baselines:Optimal",
}
"""Where each class is: module of this package, and its name there."""

ORIGINS = ("published", "from code", "derived", "chosen", "unverified")
"""Where a constant may come from: read in the paper (or in a transcription of it), or in public
code only; derived here, with a proof; chosen here, without one; or quoted from memory, as no text
was at hand."""

RENAMED = {"ucfh:confidence=best,stop=certificate": "certified-ucfh"}
"""Names that earlier versions used, and that their results folders hold."""

COMMON = ("self", "problem", "epsilon", "delta", "episodes", "scale", "seed", "mdp")


def agent_class(name: str) -> type[Agent]:
    """The class of a learner; an error that suggests the nearest name."""
    if name not in AGENTS:
        raise unknown("learner", name, AGENTS)
    module, _, attribute = AGENTS[name].partition(":")
    found: type[Agent] = getattr(import_module(f"ucfh.agents.{module}"), attribute)
    return found


def origins(constants: str) -> list[str]:
    """Which of `ORIGINS` a learner's ``constants`` name.

    >>> origins("published: the radius; derived: m")
    ['published', 'derived']
    """
    named = (part.partition(":")[0] for part in constants.split("; "))
    return [origin for origin in named if origin in ORIGINS]


def parameters_of(cls: type[Agent]) -> dict[str, Any]:
    """What may follow a learner's name, "psrl:prior=1": its own parameters and their defaults."""
    given = signature(cls.__init__).parameters
    return {
        name: x.default
        for name, x in given.items()
        if name not in COMMON and x.annotation != "None"  # which takes no other value
    }


def make_agent(
    name: str,
    mdp: MDP,
    epsilon: float,
    delta: float,
    episodes: int,
    seed: int = 0,
    scale: float = 1.0,
    problem: Problem | None = None,
) -> Agent:
    """A learner by its name, which may carry parameters: "psrl:prior=1".

    ``scale`` is passed to those that have something to scale (see `Agent.scale` of the result).
    ``seed`` is the random seed of the learner itself, if it has one. ``mdp`` is what it will run
    on; it is told ``problem``, by default ``mdp.problem``, and shown the MDP only if its setting
    says so.
    """
    cls, choices = read_name(name)
    check_mdp(mdp)
    told = mdp.problem if problem is None else as_problem(problem)
    accepted = signature(cls.__init__).parameters
    common = {"episodes": episodes, "seed": seed, "scale": scale, "mdp": mdp}
    choices |= {key: value for key, value in common.items() if key in accepted}
    make: Any = cls
    agent: Agent = make(told, epsilon, delta, **choices)
    return agent


def read_name(name: str) -> tuple[type[Agent], dict[str, Any]]:
    """The class of a learner, and the parameters that its name carries."""
    check_type("agent", name, str, "a name, such as 'psrl' or 'psrl:prior=1'")
    name, _, given = RENAMED.get(name, name).partition(":")
    cls = agent_class(name)
    accepted = signature(cls.__init__).parameters
    choices: dict[str, Any] = {}
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key not in accepted or key in COMMON:
            raise unknown(f"parameter of {name}", key, parameters_of(cls))
        choices[key] = _as_kind(name, key, value, str(accepted[key].annotation))
    return cls, choices


def _as_kind(name: str, key: str, value: str, kind: str) -> Any:
    """A parameter's text as what its constructor asks for: "int", "float", or a text."""
    try:
        return {"int": int, "float": float}.get(kind.partition(" ")[0], str)(value)
    except ValueError:
        what = "a whole number" if kind.startswith("int") else "a number"
        raise InputError(f"{key} of {name} is {value!r}: it must be {what}") from None
