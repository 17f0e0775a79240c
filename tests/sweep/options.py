"""Declarations and options of public entry points, drawn at random and always true of the model.

Tables map the names in a signature to functions that draw a value; what no table holds is listed
with a reason in `sweep.coverage`. ``OMIT`` leaves an option out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.models import Generator, Model

OMIT: Any = object()


@dataclass
class Case:
    """A model, the names of its parts, and what has been drawn for it so far.

    Attributes:
        states, actions: labels, in the order of the model.
        given: values of options. labels: their short descriptions, for the tables of the report.

    """

    model: Model
    rng: Generator
    states: list[Any]
    actions: list[Any]
    given: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def coin(self, share: float = 0.5) -> bool:
        """True with that probability."""
        return bool(self.rng.random() < share)

    def pick(self, *values: Any) -> Any:
        """One of the values."""
        return values[self.rng.integers(len(values))]

    def note(self, name: str, label: Any) -> None:
        """Write down the value of an option for the report."""
        self.labels[name] = str(label)

    @property
    def largest(self) -> float:
        """The largest return that the declarations allow: ``upper`` without data."""
        low, high = self.given.get("rewards") or (0.0, 1.0)
        most = self.model.horizon * (max(0.0, high) + max(0.0, -low)) - self.model.horizon * max(
            0.0, -low
        )
        given = self.given.get("max_return")
        return most if given is None else min(most, given)


Draw = Callable[[Case], tuple[Any, str]]


def declare(case: Case, table: Mapping[str, Draw]) -> None:
    """Draw every option of a table."""
    for name, draw in table.items():
        value, label = draw(case)
        case.note(name, label)
        if value is not OMIT:
            case.given[name] = value


# -- declarations of the task ----------------------------------------------------------------------


def delta(case: Case) -> tuple[Any, str]:
    value = case.pick(0.5, 0.1)
    return value, str(value)


def epsilon(case: Case) -> tuple[Any, str]:
    """A share of the range of possible returns, below all of it. Needs rewards and max_return."""
    low, _ = case.given.get("rewards") or (0.0, 1.0)
    share = case.pick(0.02, 0.1, 0.3, 0.8, 0.99)
    size = case.largest - case.model.horizon * min(0.0, low)
    return share * size, f"{share} of the range"


def unit_epsilon(case: Case) -> tuple[Any, str]:
    value = case.pick(0.05, 0.2, 0.5, 0.99 if case.model.horizon == 1 else 1.0)
    return value, str(value)


def rewards(case: Case) -> tuple[Any, str]:
    """The range of rewards: the true one, or a wider one."""
    m, kind = case.model, case.pick("default", "true", "wider", "wider")
    if kind == "default" and m.low >= 0.0 and m.high <= 1.0:
        return OMIT, "default"
    if kind == "wider":
        size = case.pick(0.2, 1.0, 2.0) * (m.high - m.low)
        return (m.low - case.pick(0.0, 0.0, size), m.high + size), "wider"
    return (m.low, m.high), f"[{m.low:g}, {m.high:g}]"


def max_return(case: Case) -> tuple[Any, str]:
    """The largest return, or more. Needs the range of rewards first."""
    m, kind = case.model, case.pick("none", "true", "true", "true", "above")
    low, _ = case.given.get("rewards") or (0.0, 1.0)
    if kind == "none" or m.largest_return <= m.horizon * min(0.0, low) + 1e-9:
        return OMIT, "none"
    silence = m.attrition is not None and m.pays[0][0][0][m.attrition][0][1]
    if silence > m.largest_return:  # a timeout that no episode reaches, refused all the same
        return OMIT, "none"
    if kind == "above":
        return m.largest_return + case.pick(0.1, 1.0) * (m.high - m.low), "above"
    return m.largest_return, "true"


def segments(case: Case) -> tuple[Any, str]:
    """Change points: those of the model, more, or every step."""
    m = case.model
    kind = case.pick("none", "none", "exact", "more", "every")
    if kind == "none" and not m.segments:
        return OMIT, "none"
    if kind == "every":
        return True, "every"
    extra = {t for t in range(1, m.horizon) if kind == "more" and case.coin()}
    steps = sorted({*m.segments, *extra})
    return (steps, kind) if steps else (OMIT, "none")


def horizon(case: Case) -> tuple[Any, str]:
    return case.model.horizon, "declared"


def actions(case: Case) -> tuple[Any, str]:
    return list(case.actions), "declared"


# -- live tasks ------------------------------------------------------------------------------------


def task_states(case: Case) -> tuple[Any, str]:
    """None, a list, or a dictionary with the actions of each state.

    Terminal states are declared in the dictionary alone: those of a list have all actions.
    """
    m = case.model
    masked = not all(m.available[s].all() for s in m.decision_states)
    kind = case.pick("none", "list", "dict")
    if kind == "none" or (kind == "list" and masked):
        return OMIT, "none"
    if kind == "list":
        return [case.states[s] for s in m.decision_states], "list"
    declared: dict[Any, Any] = {
        case.states[s]: [case.actions[a] for a in m.choices(s)]
        if not m.available[s].all() or case.coin()
        else None
        for s in m.decision_states
    }
    for s in m.terminal:
        if s != m.attrition or "on_timeout" in case.given:
            declared[case.states[s]] = []
    return declared, "dict"


def timeout(case: Case) -> tuple[Any, str]:
    """Seconds of the simulated clock; decided by `on_timeout`, which comes first."""
    if case.labels["on_timeout"] == "none" and case.coin():
        return OMIT, "none"
    return 100.0, "100 s"


def on_timeout(case: Case) -> tuple[Any, str]:
    """Silence means a terminal state where the model has attrition; else nothing is known."""
    m = case.model
    if m.attrition is not None:
        ((_, reward),) = m.pays[0][0][0][m.attrition]
        return (case.states[m.attrition], reward), "state"
    value = case.pick(OMIT, "lost")
    return value, "none" if value is OMIT else "lost"


def planning(case: Case) -> tuple[Any, str]:
    value = case.pick("inline", "inline", "off")
    return value, str(value)


OPEN_TASK: dict[str, Draw] = {
    "actions": actions,
    "horizon": horizon,
    "rewards": rewards,
    "max_return": max_return,
    "epsilon": epsilon,
    "delta": delta,
    "on_timeout": on_timeout,
    "timeout": timeout,
    "states": task_states,
    "segments": segments,
}


# -- environments ----------------------------------------------------------------------------------


def masks(case: Case) -> tuple[Any, str]:
    masked = not case.model.available.all()
    return masked or case.coin(0.2), "masked" if masked else "full"


def env_horizon(case: Case) -> tuple[Any, str]:
    return case.model.horizon, "declared"


def encode(case: Case) -> tuple[Any, str]:
    if case.labels.get("observations") == "array":
        return (lambda x: int(x[0])), "function"
    return OMIT, "none"


def env_seed(case: Case) -> tuple[Any, str]:
    value = case.pick(OMIT, 3)
    return value, "none" if value is OMIT else "3"


LEARN: dict[str, Draw] = {
    "rewards": rewards,
    "max_return": max_return,
    "epsilon": epsilon,
    "delta": delta,
    "horizon": env_horizon,
    "masks": masks,
    "segments": segments,
    "encode": encode,
    "seed": env_seed,
}


# -- models and their agent ----------------------------------------------------------------------


def _by_step(case: Case) -> bool:
    return bool(case.given["time_dependent"])


def problem_time_dependent(case: Case) -> tuple[Any, str]:
    value = bool(case.model.segments) or case.coin(0.2)
    return value, str(value)


def problem_rewards(case: Case) -> tuple[Any, str]:
    """Mean rewards, known or unknown."""
    if case.coin():
        return OMIT, "unknown"
    return step_arrays(case.model, case.model.mean, _by_step(case)), "known"


def problem_successors(case: Case) -> tuple[Any, str]:
    """A mask of possible successors: exact, more, or none."""
    if case.coin(0.4):
        return OMIT, "unknown"
    mask = step_arrays(case.model, case.model.p, _by_step(case)) > 0
    if more := case.coin():
        mask = mask | (case.rng.random(mask.shape) < 0.3)
    return mask, "more" if more else "exact"


def problem_initial(case: Case) -> tuple[Any, str]:
    if case.coin():
        return OMIT, "unknown"
    return case.model.start, "known"


def problem_available(case: Case) -> tuple[Any, str]:
    if case.model.available.all():
        return OMIT, "all"
    return case.model.available, "masked"


def problem_terminal(case: Case) -> tuple[Any, str]:
    return sorted(case.model.terminal), str(len(case.model.terminal))


PROBLEM: dict[str, Draw] = {
    "states": lambda case: (case.model.states, "number"),
    "actions": lambda case: (case.model.actions, "number"),
    "horizon": horizon,
    "time_dependent": problem_time_dependent,
    "rewards": problem_rewards,
    "successors": problem_successors,
    "initial": problem_initial,
    "available": problem_available,
    "terminal": problem_terminal,
    "state_names": lambda case: ([str(x) for x in case.states], "named"),
    "action_names": lambda case: ([str(x) for x in case.actions], "named"),
}


def step_arrays(model: Model, array: Any, by_step: bool) -> Any:
    """An array by segment (G, ...) as (H, ...), or as (...) where all steps are alike."""
    if not by_step:
        return array[0][None] if array is model.mean else array[0]
    return array[[model.segment(t) for t in range(model.horizon)]]


def confidence(case: Case) -> tuple[Any, str]:
    value = case.pick("tight", "tight", "tight", "kt", "kt-ball", "kl-ball", "l1", "kl", "paper")
    return value, str(value)


def schedule(case: Case) -> tuple[Any, str]:
    kinds = [None, "doubling", "paper"]
    if case.given["confidence"] in ("tight", "kt", "kt-ball", "kl-ball"):
        kinds.append("growth")
    value = case.pick(*kinds)
    return value, str(value)


def without(case: Case) -> tuple[Any, str]:
    """Parts of the bounds that are switched off."""
    if case.given["confidence"] != "tight" or case.coin(0.7):
        return OMIT, "none"
    idea = case.pick("difference", "directed", "fixed", "overlap", "scores", "sparse")
    return (idea,), str(idea)


def m_constant(case: Case) -> tuple[Any, str]:
    if case.given["schedule"] != "paper":
        return OMIT, "none"
    return 3.0, "3"


def variant(case: Case) -> tuple[Any, str]:
    if case.given["schedule"] != "paper":
        return OMIT, "none"
    value = case.pick("paper", "corrected")
    return value, str(value)


CERTIFIED_UCFH: dict[str, Draw] = {
    "epsilon": unit_epsilon,
    "delta": delta,
    "confidence": confidence,
    "schedule": schedule,
    "stop": lambda case: case.pick((None, "none"), ("certificate", "certificate")),
    "without": without,
    "m": m_constant,
    "variant": variant,
}

SIMULATE: dict[str, Draw] = {
    "method": lambda case: case.pick(("bulk", "bulk"), ("step", "step")),
    "episodes": lambda case: (case.pick(10, 50, 200, 1000), "limited"),
}


# -- logs ------------------------------------------------------------------------------------------


def log_states(case: Case) -> tuple[Any, str]:
    """None, names, or their number; more than there are is true, too."""
    kind = case.pick("none", "list", "more", "number")
    m = case.model
    if kind == "none" or case.labels["names"] == "bins":
        return OMIT, "none"
    names = [str(x) for s, x in enumerate(case.states) if s != m.attrition]
    if kind == "number" and case.labels["names"] == "numbers":
        return len(names), "number"
    if kind == "more":
        return [*names, "never"], "more"
    return names, "list"


def log_segments(case: Case) -> tuple[Any, str]:
    """Change points in the log's own t, which dates and rows without t do not show."""
    value, label = segments(case)
    if case.labels["t"] not in ("dates", "none") and isinstance(value, list):
        first = int(case.labels["t"] == "from 1")
        return [t + first for t in value], label
    return OMIT, "none"


def log_time_dependent(case: Case) -> tuple[Any, str]:
    declared = "segments" in case.given
    if not declared and (case.model.segments or case.coin(0.2)):
        return True, "true"
    return OMIT, "none"


def blank_reward(case: Case) -> tuple[Any, str]:
    if case.labels["dropouts"] != "none" or case.coin(0.7):
        return OMIT, "none"
    return case.pick(case.model.low, case.model.high), "an end of the range"


def strict(case: Case) -> tuple[Any, str]:
    """Draw it where the log has no fault; an early end of its last episode is one."""
    whole = case.labels["steps after the horizon"] == "0"
    value = {case.labels["faults"], case.labels["dropouts"]} == {"none"} and whole and case.coin()
    return value, str(value)


READ_LOG: dict[str, Draw] = {
    "rewards": rewards,
    "max_return": max_return,
    "states": log_states,
    "actions": lambda case: case.pick(
        (OMIT, "none"), ([str(x) for x in case.actions], "list"),
        ([str(x) for x in reversed(case.actions)], "reversed"),
    ),
    "horizon": lambda case: case.pick((OMIT, "none"), (case.model.horizon, "declared")),
    "segments": log_segments,
    "time_dependent": log_time_dependent,
    "blank_reward": blank_reward,
    "strict": strict,
    "accept_losses": lambda case: (True, "true") if case.labels["faults"] == "accepted"
    else (OMIT, "none"),
}  # fmt: skip

CERTIFY: dict[str, Draw] = {"delta": delta, "epsilon": epsilon}
