"""UCFH: learn a task that repeats and lasts a fixed number of steps, with a guarantee.

Names are loaded on first use, so that ``import ucfh`` costs nothing.
"""

from __future__ import annotations

__version__ = "0.14.0"

_HOME = {
    "MDP": "mdp",
    "Problem": "mdp",
    "InputError": "exceptions",
    "Plan": "planning",
    "fixed_horizon_evi": "planning",
    "Constants": "theory.constants",
    "constants": "theory.constants",
    "bounds": "theory.bounds",
    "EpisodeLowerBound": "theory.lower_bounds",
    "episode_lower_bound": "theory.lower_bounds",
    "hard_class_lower_bound": "theory.lower_bounds",
    "confidence_set": "confidence.intervals",
    "kl_set": "confidence.intervals",
    "Counts": "counts",
    "Limits": "counts",
    "ScoringRule": "counts",
    "Certificate": "certificate",
    "certify": "certification",
    "audit": "logs.audit",
    "AuditReport": "auditing.report",
    "Log": "logs.reading",
    "read_log": "logs.reading",
    "write_log": "logs.synthetic",
    "IntervalMDP": "interval_mdp",
    "read_intervals": "io",
    "UCFH": "algorithms.ucfh",
    "CertifiedUCFH": "algorithms.certified",
    "Agent": "algorithms.base",
    "BonusAgent": "algorithms.bonus",
    "RewardFree": "algorithms.reward_free",
    "make_agent": "algorithms.registry",
    "agent_class": "algorithms.registry",
    "Run": "simulation.result",
    "simulate": "simulation.runner",
    "check_agent": "simulation.checker",
    "AgentError": "simulation.checker",
    "Comparison": "comparison.result",
    "compare": "comparison.runner",
    "verify": "theory.verification",
    "make": "problems",
    "learn": "envs.learning",
    "LearningResult": "envs.learning",
    "LearnedPolicy": "envs.policy",
    "LearningError": "envs.learning",
    "open_task": "tasks.opening",
    "Task": "tasks.task",
    "connect": "server.client",
    "RemoteTask": "server.client",
    "Decision": "tasks.protocol",
    "TaskStatus": "tasks.status",
    "LateOutcomeWarning": "tasks.errors",
    "TaskError": "tasks.errors",
    "UnknownTask": "tasks.errors",
    "UnknownEpisode": "tasks.errors",
    "Conflict": "tasks.errors",
    "EpisodeOver": "tasks.errors",
    "OutOfOrder": "tasks.errors",
    "InvalidReport": "tasks.errors",
    "StoreFull": "tasks.errors",
    "StoreBusy": "tasks.errors",
    "StoreError": "tasks.errors",
    "read_model": "io",
    "write_model": "io",
    "read_policy": "io.policies",
    "write_policy": "io.policies",
}

__all__ = ["__version__", *_HOME]

TYPE_CHECKING = False  # as type checkers know it; importing typing would take the longest
if TYPE_CHECKING:
    from typing import Any

    from ucfh.algorithms.base import Agent as Agent
    from ucfh.algorithms.bonus import BonusAgent as BonusAgent
    from ucfh.algorithms.certified import CertifiedUCFH as CertifiedUCFH
    from ucfh.algorithms.registry import agent_class as agent_class
    from ucfh.algorithms.registry import make_agent as make_agent
    from ucfh.algorithms.reward_free import RewardFree as RewardFree
    from ucfh.algorithms.ucfh import UCFH as UCFH
    from ucfh.auditing.report import AuditReport as AuditReport
    from ucfh.certificate import Certificate as Certificate
    from ucfh.certification import certify as certify
    from ucfh.comparison.result import Comparison as Comparison
    from ucfh.comparison.runner import compare as compare
    from ucfh.confidence.intervals import confidence_set as confidence_set
    from ucfh.confidence.intervals import kl_set as kl_set
    from ucfh.counts import Counts as Counts
    from ucfh.counts import Limits as Limits
    from ucfh.counts import ScoringRule as ScoringRule
    from ucfh.envs.learning import LearningError as LearningError
    from ucfh.envs.learning import LearningResult as LearningResult
    from ucfh.envs.learning import learn as learn
    from ucfh.envs.policy import LearnedPolicy as LearnedPolicy
    from ucfh.exceptions import InputError as InputError
    from ucfh.interval_mdp import IntervalMDP as IntervalMDP
    from ucfh.io import read_intervals as read_intervals
    from ucfh.io import read_model as read_model
    from ucfh.io import write_model as write_model
    from ucfh.io.policies import read_policy as read_policy
    from ucfh.io.policies import write_policy as write_policy
    from ucfh.logs.audit import audit as audit
    from ucfh.logs.reading import Log as Log
    from ucfh.logs.reading import read_log as read_log
    from ucfh.logs.synthetic import write_log as write_log
    from ucfh.mdp import MDP as MDP
    from ucfh.mdp import Problem as Problem
    from ucfh.planning import Plan as Plan
    from ucfh.planning import fixed_horizon_evi as fixed_horizon_evi
    from ucfh.problems import make as make
    from ucfh.server.client import RemoteTask as RemoteTask
    from ucfh.server.client import connect as connect
    from ucfh.simulation.checker import AgentError as AgentError
    from ucfh.simulation.checker import check_agent as check_agent
    from ucfh.simulation.result import Run as Run
    from ucfh.simulation.runner import simulate as simulate
    from ucfh.tasks.errors import Conflict as Conflict
    from ucfh.tasks.errors import EpisodeOver as EpisodeOver
    from ucfh.tasks.errors import InvalidReport as InvalidReport
    from ucfh.tasks.errors import LateOutcomeWarning as LateOutcomeWarning
    from ucfh.tasks.errors import OutOfOrder as OutOfOrder
    from ucfh.tasks.errors import StoreBusy as StoreBusy
    from ucfh.tasks.errors import StoreError as StoreError
    from ucfh.tasks.errors import StoreFull as StoreFull
    from ucfh.tasks.errors import TaskError as TaskError
    from ucfh.tasks.errors import UnknownEpisode as UnknownEpisode
    from ucfh.tasks.errors import UnknownTask as UnknownTask
    from ucfh.tasks.opening import open_task as open_task
    from ucfh.tasks.protocol import Decision as Decision
    from ucfh.tasks.status import TaskStatus as TaskStatus
    from ucfh.tasks.task import Task as Task
    from ucfh.theory.bounds import bounds as bounds
    from ucfh.theory.constants import Constants as Constants
    from ucfh.theory.constants import constants as constants
    from ucfh.theory.lower_bounds import EpisodeLowerBound as EpisodeLowerBound
    from ucfh.theory.lower_bounds import episode_lower_bound as episode_lower_bound
    from ucfh.theory.lower_bounds import hard_class_lower_bound as hard_class_lower_bound
    from ucfh.theory.verification import verify as verify


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ucfh' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"ucfh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
