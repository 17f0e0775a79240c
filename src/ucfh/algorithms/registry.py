"""The registry of agents by name.

An agent's class has the attributes ``reference``, ``setting``, ``guarantee`` and ``constants``
(see `ucfh.algorithms.base.Agent`); its constructor takes

    (problem, epsilon, delta, episodes, scale=1.0, ...)

and raises `InputError` for a problem that does not fit its setting. Of ``episodes``, ``seed``,
``scale`` and ``mdp`` it may omit parameters that it does not use. A user-defined agent is named
with its module, ``module:Class``.
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from inspect import Parameter, getdoc, signature
from typing import Any, NamedTuple, TypeGuard

from ucfh._utils.plugins import find_plugin, is_plugin, unknown_name, user_code
from ucfh.algorithms.base import Agent
from ucfh.exceptions import InputError, unknown_parameter, with_article, wrong_type
from ucfh.problems import AnyMDP, AnyProblem, as_mdp, as_problem

AnyAgent = str | type[Agent]
"""The name of an agent, or its class."""

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
"""Module of this package and class, by the name of the agent."""

ORIGINS = ("published", "from code", "derived", "chosen", "unverified")
"""Provenance of a constant: the paper (or a transcription of it); public code only; derived here,
with a proof; chosen here, without one; or quoted from memory, as the paper was not available."""

UNKNOWN_EPISODES = 10**9
"""The number of episodes K passed to an agent that needs one where it is unknown."""

COMMON = ("self", "problem", "epsilon", "delta", "episodes", "scale", "seed", "mdp")


def agent_class(name: AnyAgent) -> type[Agent]:
    """Return the class of an agent.

    Raises:
        InputError: if the name is unknown; the message suggests the nearest one.

    """
    return read_name(name)[0]


def label_of(agent: AnyAgent) -> str:
    """Return the name of an agent in results."""
    return agent if isinstance(agent, str) else agent.name


def origins(constants: str) -> list[str]:
    """Return the members of `ORIGINS` in an agent's ``constants``.

    >>> origins("published: the radius; derived: m")
    ['published', 'derived']
    """
    named = (part.partition(":")[0] for part in constants.split("; "))
    return [origin for origin in named if origin in ORIGINS]


def tell_origins(constants: str) -> str:
    """Return `origins` as one string, or ``constants`` itself if it names none of them.

    >>> tell_origins("published: the radius; derived: m"), tell_origins("not stated")
    ('published, derived', 'not stated')
    """
    return ", ".join(origins(constants)) or constants


def parameters_of(cls: type[Agent]) -> dict[str, Any]:
    """Return the parameters that an agent's name accepts ("psrl:prior=1"), with defaults."""
    return {name: x.default for name, x in _own_parameters(cls).items()}


def _own_parameters(cls: type[Agent]) -> dict[str, Parameter]:
    """Return the constructor parameters that a name can set: neither None-typed nor tuples."""
    return {
        name: x
        for name, x in signature(cls.__init__).parameters.items()
        if name not in COMMON
        and x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)
        and x.annotation != "None"
        and "tuple" not in str(x.annotation)
    }


class ParameterFacts(NamedTuple):
    """The description of an agent's parameter.

    Attributes:
        name, default: of the constructor's parameter; the default is None where it is computed.
        kind: a value of `KINDS`.
        words: meaning and accepted values, from the docstring.

    """

    name: str
    kind: str
    default: Any
    words: str


def describe_parameters(cls: type[Agent]) -> list[ParameterFacts]:
    """Return descriptions of an agent's own parameters.

    >>> describe_parameters(agent_class("epsilon-greedy"))
    [ParameterFacts(name='explore', kind='a number', default=0.1,
    words='the probability that a step is random, in (0, 1].')]
    """
    words: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        words |= _parse_arguments(getdoc(ancestor) or "")
    return [
        ParameterFacts(name, KINDS[_kind(x)], x.default, words.get(name, "not described"))
        for name, x in _own_parameters(cls).items()
    ]


def _parse_arguments(docstring: str) -> dict[str, str]:
    """Return the descriptions in the section "Args" of a docstring, by argument."""
    described: dict[str, str] = {}
    names: list[str] = []
    inside = False
    for line in docstring.replace("`", "").splitlines():
        text = line.strip()
        if line[:1].strip():
            inside = text.startswith("Args")
        elif inside and text and line[:5].strip():  # four blanks: a new entry
            head, _, text = text.partition(": ")
            names = head.split(", ")
            described |= dict.fromkeys(names, text)
        elif inside and text:
            described |= {name: f"{described[name]} {text}" for name in names}
    return described


def make_agent(
    name: AnyAgent,
    mdp: AnyMDP,
    epsilon: float,
    delta: float,
    episodes: int | None = None,
    seed: int = 0,
    scale: float = 1.0,
    problem: AnyProblem | None = None,
) -> Agent:
    """Create an agent by its name, which may carry parameters: "psrl:prior=1".

    Args:
        name: a name (see ``ucfh agents``); ``module:Class``, with parameters after a second colon,
            for a user-defined agent; or its class.
        mdp: the MDP to run on, passed to agents whose setting assumes a known model.
        epsilon, delta: accuracy and failure probability.
        episodes: number of episodes K; None: unknown, a very large K.
        seed: random seed of the agent itself, if it has one.
        scale: factor of bonuses, radii or numbers of samples, where there are any (see
            `Agent.scale` of the result).
        problem: the known part of the MDP; by default ``mdp.problem``.

    Returns:
        The agent, which has not seen any episode.

    Raises:
        InputError: for an unknown name or parameter, or a problem outside the agent's setting.

    """
    cls, choices = read_name(name)
    mdp = as_mdp(mdp)
    known = mdp.problem if problem is None else as_problem(problem)
    accepted = signature(cls.__init__).parameters
    K = UNKNOWN_EPISODES if episodes is None else episodes
    common = {"episodes": K, "seed": seed, "scale": scale, "mdp": mdp}
    choices |= {key: value for key, value in common.items() if key in accepted}
    make: Any = cls
    with user_code(name) if isinstance(name, str) and is_plugin(name) else nullcontext():
        agent: Agent = make(known, epsilon, delta, **choices)
    return agent


def read_name(name: AnyAgent) -> tuple[type[Agent], dict[str, Any]]:
    """Return the class of an agent, and the parameters in its name.

    Raises:
        InputError: if the name, a parameter or its value is unknown, or the class incomplete.

    """
    if _is_agent(name):
        return _check_complete(name, name.__name__), {}
    if not isinstance(name, str):
        raise wrong_type("agent", name, "an agent's name, such as 'psrl', or its class")
    label, _, given = name.partition(":")
    if label in AGENTS:
        module, _, attribute = AGENTS[label].partition(":")
        cls: type[Agent] = getattr(import_module(f"ucfh.algorithms.{module}"), attribute)
    elif is_plugin(name):
        label, thing, given = find_plugin("agent", name, _is_agent)
        if not _is_agent(thing):
            is_class = isinstance(thing, type)
            kind = "a class" if is_class else with_article(type(thing).__name__)
            remedy = "derive it from ucfh.Agent" if is_class else "name a class"
            raise InputError(f"{label} is {kind}, not an agent: {remedy}")
        cls = _check_complete(thing, label)
    else:
        raise unknown_name("agent", label, AGENTS)
    accepted = signature(cls.__init__).parameters
    choices: dict[str, Any] = {}
    for part in filter(None, given.split(",")):
        key, _, value = (x.strip() for x in part.partition("="))
        if key not in accepted or key in COMMON:
            raise unknown_parameter(label, key, parameters_of(cls))
        choices[key] = _parse_value(label, key, value, accepted[key])
    return cls, choices


def _is_agent(thing: Any) -> TypeGuard[type[Agent]]:
    return isinstance(thing, type) and issubclass(thing, Agent)


def _check_complete(cls: type[Agent], label: str) -> type[Agent]:
    """Return the class if it has all methods of an agent; else raise."""
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        methods = f"method{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise InputError(f"{label} is incomplete: implement its {methods}")
    return cls


KINDS = {int: "a whole number", float: "a number", str: "text"}


def _kind(parameter: Parameter) -> type:
    """Return the type of a parameter, from its annotation or else its default."""
    annotation = parameter.annotation
    if annotation is Parameter.empty:
        annotation = type(parameter.default)
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return {"int": int, "float": float}.get(text.partition(" ")[0], str)


def _parse_value(label: str, key: str, value: str, parameter: Parameter) -> Any:
    """Parse the value of a parameter; "none" is None where that is allowed."""
    if value.lower() == "none" and "None" in str(parameter.annotation):
        return None
    kind = _kind(parameter)
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{key} of {label} is {value!r}: it must be {KINDS[kind]}") from None
