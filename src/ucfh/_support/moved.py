"""Modules that earlier versions had, and what to import in their place."""

from __future__ import annotations

MOVED = {
    "ucfh.live": "from ucfh import read_log, write_log",
    "ucfh.best": "from ucfh.confidence.values import Best",
    "ucfh.sets": "from ucfh.confidence.sets import Sets",
    "ucfh.files": "from ucfh._support import files",
    "ucfh.validation": "from ucfh._support import validation",
    "ucfh.memory": "from ucfh._support import memory",
    "ucfh.parallel": "from ucfh._support import parallel",
    "ucfh.clock": "from ucfh._support import clock",
    "ucfh.defaults": "from ucfh._support import defaults",
    "ucfh.interrupts": "from ucfh._support import interrupts",
    "ucfh.models.intervals": "from ucfh import IntervalMDP",
    "ucfh.planning.intervals": "from ucfh import fixed_horizon_evi",
    "ucfh.agents.accountable": "from ucfh import agent_class; agent_class('euler')",
    "ucfh.agents.acyclic": "from ucfh import agent_class; agent_class('reveliotis')",
    "ucfh.agents.directed": "from ucfh.agents.beliefs import ValueBeliefs",
    "ucfh.agents.floors": "from ucfh import agent_class; agent_class('uniform')",
    "ucfh.agents.posterior": "from ucfh import agent_class; agent_class('psrl')",
    "ucfh.simulation.record": "from ucfh import Run; Run.load(path)",
    "ucfh.simulation.watch": "from ucfh import simulate; simulate(..., on_phase=...)",
    "ucfh.comparison.statistics": "from ucfh._support import statistics",
    "ucfh.report.figures": "from ucfh.simulation import figures",
    "ucfh.report.comparison": "from ucfh.comparison import figures",
    "ucfh.report.canvas": "from ucfh._support import canvas",
}


class MovedModules:
    """The last finder that Python asks for a module: it says what to import instead."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise for modules that have moved, and those inside them."""
        del path, target
        for old, new in MOVED.items():
            if name == old or name.startswith(old + "."):
                raise ModuleNotFoundError(f"{name} has moved: {new}", name=name)
