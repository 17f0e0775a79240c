"""Studies as TOML files: what is asked, what is predicted, and which jobs answer it.

    title = "Mistakes against Theorem 1"
    predicted = "At most this many ..."      # what the theory says, for the report
    reading = "mistakes"                     # how results are read (`ucfh.studies.readings`)

    [[grid]]                                 # one or more
    measure = "lifetime"                     # a function of `ucfh.experiments.measures`
    replicates = 10                          # runs of each combination, with spawned seeds
    problem = ["chain:n=5", "tutoring"]      # lists: every combination
    epsilon = 0.2
    delta = 0.1
    quick = { replicates = 2 }               # what ``--quick`` replaces

Arguments that belong together are given as ``cases``: a list of tables, one after the other.
``{replicate}`` in a string becomes the number of the replicate, as in
``random:states=8,seed={replicate}``. ``label`` names a grid for the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from itertools import product
from typing import Annotated, Any, Literal, get_args, get_origin

from ucfh._support.files import AnyPath, naming, parse_toml
from ucfh.errors import InputError, check_count, unknown
from ucfh.experiments.jobs import Job
from ucfh.experiments.measures import MEASURES

HEAD = ("title", "predicted", "reading")
OWN = ("measure", "label", "replicates", "cases", "quick")
"""Keys of a grid that are not arguments of its measure."""

Grid = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Study:
    """A spec that was read and checked.

    Attributes:
        name: of the study, or of its file without the ending.
        text: the TOML.
        title, predicted, reading: see the module.
        grids: as they stand in the file.

    """

    name: str
    text: str
    title: str
    predicted: str
    reading: str
    grids: list[Grid]

    def jobs(self, root: int = 0, quick: bool = False) -> list[Job]:
        """All jobs, each replicate of all grids before the next replicate."""
        found: list[Job] = []
        for i, grid in enumerate(self.grids):
            place = f"grid[{i}].quick" if quick and "quick" in grid else f"grid[{i}]"
            found += _expand(_quickened(grid) if quick else grid, place, root)
        # an interrupted run then covers all grids, and the time left is easy to estimate
        return sorted(found, key=lambda job: job.replicate)


def parse_study(name: str, text: str, place: AnyPath) -> Study:
    """A study from the text of its file; errors begin with ``place``."""
    with naming(place):
        found = parse_toml(text)
        for key in found:
            if key not in (*HEAD, "grid"):
                raise unknown("key", key, (*HEAD, "grid"))
        for key in HEAD:
            _check(key, key, str, _required(found, key))
        grids = _required(found, "grid")
        if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
            raise InputError("grid: write it as [[grid]] tables")
        if not grids:
            raise InputError("grid is an empty list: give at least one")
        study = Study(name, text, **{key: found[key].strip() for key in HEAD}, grids=grids)
        for quick in (False, True):
            study.jobs(quick=quick)
    return study


def _required(table: Mapping[str, Any], key: str) -> Any:
    if key not in table:
        raise InputError(f"{key} is missing: add it")
    return table[key]


def _quickened(grid: Grid) -> Grid:
    quick = grid.get("quick", {})
    return {**grid, **quick} if isinstance(quick, dict) else grid


def _expand(grid: Grid, place: str, root: int) -> Iterator[Job]:
    """The jobs of a grid, which stands at a place of the file."""
    with naming(place):
        measure = _required(grid, "measure")
        cases = _tables("cases", grid.get("cases", [{}]))
        _tables("quick", [grid.get("quick", {})])
    _check(place, "measure", Annotated[str, _find_measure], measure)
    label, replicates = grid.get("label", ""), grid.get("replicates", 1)
    _check(place, "label", str, label)
    _check(place, "replicates", Annotated[int, check_count], replicates)
    parameters = dict(signature(MEASURES[measure], eval_str=True).parameters)
    if parameters.pop("seed", None) is None and replicates > 1:
        raise InputError(f"{place}.replicates: {measure} is not random: leave it out")
    common = {key: value for key, value in grid.items() if key not in OWN}
    seen: set[str] = set()
    for k, case in enumerate(cases):
        where = f"{place}.cases[{k}]" if "cases" in grid else place
        for key in case:
            if key in common:
                raise InputError(f"{where}.{key}: it is given outside cases too: remove one")
        for replicate, arguments in _points({**common, **case}, where, measure, parameters,
                                            replicates):  # fmt: skip
            job = Job(measure, arguments, replicate, root, label)
            if job.id not in seen:
                seen.add(job.id)
                yield job


def _find_measure(name: str) -> None:
    if name not in MEASURES:
        raise unknown("measure", name, MEASURES)


def _tables(key: str, value: Any) -> list[Grid]:
    if not isinstance(value, list) or not all(isinstance(case, dict) for case in value):
        what = "a list of tables" if key == "cases" else "a table"
        raise InputError(f"{key}: it must be {what}, such as {{ epsilon = 0.1 }}")
    if not value:
        raise InputError(f"{key} is an empty list: give at least one")
    return value


def _points(
    given: Grid, place: str, measure: str, parameters: Mapping[str, Parameter], replicates: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every combination of arguments, for every replicate."""
    values = {}
    with naming(place):
        for key in given:
            if key not in parameters:
                raise unknown("key", key, (*OWN, *parameters))
        for key, parameter in parameters.items():
            if key not in given and parameter.default is Parameter.empty:
                raise InputError(f"{key} is missing: {measure} needs it")
            value = given.get(key, parameter.default)
            values[key] = value if isinstance(value, list) else [value]
            if not values[key]:
                raise InputError(f"{key} is an empty list: give at least one")
    for replicate in range(replicates):
        for combination in product(*values.values()):
            arguments = {}
            for key, value in zip(values, combination, strict=True):
                if isinstance(value, str):
                    value = value.replace("{replicate}", str(replicate))
                _check(place, key, parameters[key].annotation, value)
                kind = _plain(parameters[key].annotation)
                arguments[key] = float(value) if kind is float else value
            yield replicate, arguments


def _plain(annotation: Any) -> Any:
    """The type inside an annotation."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    return str if get_origin(annotation) is Literal else annotation


def _check(place: str, key: str, annotation: Any, value: Any) -> None:
    """Raise unless a value is what the annotation of a key at a place asks for."""
    words = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
    kind = _plain(annotation)
    with naming(key if place == key else f"{place}.{key}"):
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{value!r} is not {words[kind]}: write one")
        if get_origin(annotation) is Literal and value not in get_args(annotation):
            raise unknown(key, value, get_args(annotation))
        if get_origin(annotation) is Annotated:
            named = (value,) if kind is str else (key, value)
            _allow(get_args(annotation)[1], *named)


@cache
def _allow(check: Callable[..., object], *given: Any) -> None:
    """Let a check refuse a value; cached, because a problem is built to check its name."""
    check(*given)
