"""UCFH: learn a task that repeats and lasts a fixed number of steps, with a guarantee.

Names are loaded on first use, so that ``import ucfh`` costs nothing.
"""

from __future__ import annotations

__version__ = "0.14.0"

_HOME = {
    "MDP": "problem",
    "Problem": "problem",
    "InputError": "errors",
    "Plan": "planning",
    "fixed_horizon_evi": "planning",
    "Constants": "theory.constants",
    "constants": "theory.constants",
    "bounds": "theory.bounds",
    "Floor": "theory.floor",
    "least_episodes": "theory.floor",
    "hard_class_floor": "theory.floor",
    "confidence_set": "confidence.intervals",
    "kl_set": "confidence.intervals",
    "Counts": "counts",
    "Limits": "counts",
    "Watch": "counts",
    "Certificate": "certificate",
    "certify": "certification",
    "audit": "logs.audit",
    "AuditReport": "auditing.findings",
    "Log": "logs.reading",
    "read_log": "logs.reading",
    "write_log": "logs.samples",
    "IntervalMDP": "interval_mdp",
    "read_intervals": "models",
    "UCFH": "agents.ucfh",
    "CertifiedUCFH": "agents.certified",
    "Agent": "agents.base",
    "Online": "agents.online",
    "RewardFree": "agents.reward_free",
    "make_agent": "agents.registry",
    "agent_class": "agents.registry",
    "Run": "simulation.run",
    "simulate": "simulation.simulate",
    "check_agent": "simulation.check",
    "AgentError": "simulation.check",
    "Comparison": "comparison.result",
    "compare": "comparison.runner",
    "verify": "verification",
    "make": "problems",
    "learn": "live.learning",
    "Learned": "live.learning",
    "LearnedPolicy": "live.policy",
    "LearningFault": "live.learning",
    "open_task": "tasks.opening",
    "Task": "tasks.task",
    "connect": "service.client",
    "RemoteTask": "service.client",
    "Decision": "tasks.serving",
    "TaskStatus": "tasks.status",
    "LateOutcome": "tasks.faults",
    "TaskFault": "tasks.faults",
    "UnknownTask": "tasks.faults",
    "UnknownEpisode": "tasks.faults",
    "Conflict": "tasks.faults",
    "EpisodeOver": "tasks.faults",
    "OutOfOrder": "tasks.faults",
    "Refused": "tasks.faults",
    "StoreFull": "tasks.faults",
    "StoreBusy": "tasks.faults",
    "StoreFault": "tasks.faults",
    "read_model": "models",
    "write_model": "models",
    "read_policy": "policies",
    "write_policy": "policies",
}

__all__ = ["__version__", *_HOME]

TYPE_CHECKING = False  # as type checkers know it; importing typing would take the longest
if TYPE_CHECKING:
    from typing import Any

    from ucfh.agents.base import Agent as Agent
    from ucfh.agents.certified import CertifiedUCFH as CertifiedUCFH
    from ucfh.agents.online import Online as Online
    from ucfh.agents.registry import agent_class as agent_class
    from ucfh.agents.registry import make_agent as make_agent
    from ucfh.agents.reward_free import RewardFree as RewardFree
    from ucfh.agents.ucfh import UCFH as UCFH
    from ucfh.auditing.findings import AuditReport as AuditReport
    from ucfh.certificate import Certificate as Certificate
    from ucfh.certification import certify as certify
    from ucfh.comparison.result import Comparison as Comparison
    from ucfh.comparison.runner import compare as compare
    from ucfh.confidence.intervals import confidence_set as confidence_set
    from ucfh.confidence.intervals import kl_set as kl_set
    from ucfh.counts import Counts as Counts
    from ucfh.counts import Limits as Limits
    from ucfh.counts import Watch as Watch
    from ucfh.errors import InputError as InputError
    from ucfh.interval_mdp import IntervalMDP as IntervalMDP
    from ucfh.live.learning import Learned as Learned
    from ucfh.live.learning import LearningFault as LearningFault
    from ucfh.live.learning import learn as learn
    from ucfh.live.policy import LearnedPolicy as LearnedPolicy
    from ucfh.logs.audit import audit as audit
    from ucfh.logs.reading import Log as Log
    from ucfh.logs.reading import read_log as read_log
    from ucfh.logs.samples import write_log as write_log
    from ucfh.models import read_intervals as read_intervals
    from ucfh.models import read_model as read_model
    from ucfh.models import write_model as write_model
    from ucfh.planning import Plan as Plan
    from ucfh.planning import fixed_horizon_evi as fixed_horizon_evi
    from ucfh.policies import read_policy as read_policy
    from ucfh.policies import write_policy as write_policy
    from ucfh.problem import MDP as MDP
    from ucfh.problem import Problem as Problem
    from ucfh.problems import make as make
    from ucfh.service.client import RemoteTask as RemoteTask
    from ucfh.service.client import connect as connect
    from ucfh.simulation.check import AgentError as AgentError
    from ucfh.simulation.check import check_agent as check_agent
    from ucfh.simulation.run import Run as Run
    from ucfh.simulation.simulate import simulate as simulate
    from ucfh.tasks.faults import Conflict as Conflict
    from ucfh.tasks.faults import EpisodeOver as EpisodeOver
    from ucfh.tasks.faults import LateOutcome as LateOutcome
    from ucfh.tasks.faults import OutOfOrder as OutOfOrder
    from ucfh.tasks.faults import Refused as Refused
    from ucfh.tasks.faults import StoreBusy as StoreBusy
    from ucfh.tasks.faults import StoreFault as StoreFault
    from ucfh.tasks.faults import StoreFull as StoreFull
    from ucfh.tasks.faults import TaskFault as TaskFault
    from ucfh.tasks.faults import UnknownEpisode as UnknownEpisode
    from ucfh.tasks.faults import UnknownTask as UnknownTask
    from ucfh.tasks.opening import open_task as open_task
    from ucfh.tasks.serving import Decision as Decision
    from ucfh.tasks.status import TaskStatus as TaskStatus
    from ucfh.tasks.task import Task as Task
    from ucfh.theory.bounds import bounds as bounds
    from ucfh.theory.constants import Constants as Constants
    from ucfh.theory.constants import constants as constants
    from ucfh.theory.floor import Floor as Floor
    from ucfh.theory.floor import hard_class_floor as hard_class_floor
    from ucfh.theory.floor import least_episodes as least_episodes
    from ucfh.verification import verify as verify


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ucfh' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"ucfh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
