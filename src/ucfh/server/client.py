"""A client of a task behind a service, with the methods of a task.

    task = ucfh.connect("http://127.0.0.1:8765", task="calls")
    decision = task.ask("new", episode="customer-17")
    decision = task.tell(decision, reward=0.2, state="interested")

The service commits a call before it answers. A call whose answer is lost is made again; calls are
idempotent, since (episode, t) is the key of a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import numpy as np

from ucfh._utils.files import AnyPath, check_ending, refuse_existing, replacing
from ucfh.exceptions import check_count, unknown
from ucfh.server.client_http import HttpCaller
from ucfh.server.client_json import (
    RemoteNames,
    decode_answer,
    decode_labels,
    encode_call,
    log_names,
)
from ucfh.tasks.ask_tell import AskTell
from ucfh.tasks.config import LOST_ON_TIMEOUT, check_name
from ucfh.tasks.labels import as_tuples, canonical
from ucfh.tasks.protocol import check_episode
from ucfh.tasks.status import TaskStatus
from ucfh.tasks.task import MOST_CALLS, STATUSES

if TYPE_CHECKING:
    from ucfh.auditing.report import AuditReport
    from ucfh.certificate import Certificate
    from ucfh.envs.policy import LearnedPolicy

ENDINGS = (".jsonl",)


def connect(url: str, token: str | None = None, task: str = "task") -> RemoteTask:
    """Connect to a task of a service, which `ucfh serve` runs.

    Args:
        url: of the service, such as "http://127.0.0.1:8765".
        token: the token that `ucfh token create` printed; by default the environment variable
            UCFH_TOKEN. A service on the same machine may run without tokens.
        task: the name of the task.

    Returns:
        The task.

    Raises:
        TaskError: the service or the task cannot be used; see its subclasses.

    """
    remote = RemoteTask(HttpCaller(url, token), check_name(task))
    try:
        remote._get(wait=False)
    except BaseException:
        remote.close()
        raise
    return remote


class RemoteTask(AskTell[dict[str, Any]]):
    """A task of a service, made by `connect`. Several threads may use it at once.

    Its methods are those of `Task`, with the same errors. If the service does not answer, a call is
    retried for some seconds; then it raises `StoreBusy`.

    Attributes:
        name: of the task. url: of the service.

    """

    def __init__(self, caller: HttpCaller, name: str) -> None:
        self._caller, self.name, self.url = caller, name, caller.url
        self._path = f"/v1/tasks/{quote(name, safe='')}"

    # asking and telling

    def _call(self, kind: str, episode: str, **given: Any) -> dict[str, Any]:
        return encode_call(kind, episode, given)

    def expire(self) -> int:
        """Expire the open decisions whose deadline has passed; returns their number."""
        return int(self._caller.call("POST", f"{self._path}/expire", {})["expired"])

    def serve(self, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """Make several calls in one request for up to 1,000 of them, as `Task.serve`.

        Returns:
            The answer of each call, or its error, which is not raised. A rejected call is rolled
            back alone.

        """
        answers: list[Any] = []
        for k in range(0, len(calls), MOST_CALLS):
            wanted = {"calls": list(calls[k : k + MOST_CALLS])}
            found = self._caller.call("POST", f"{self._path}/batch", wanted)["answers"]
            answers.extend(map(decode_answer, wanted["calls"], found))
        return answers

    # queries

    def decisions(
        self,
        status: str = "open",
        episode: Any = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[dict[str, Any]]:
        """Return decisions with their outcomes, in the order in which they were taken.

        Args:
            status: "open", "told", "lost" or "all".
            episode: the name of an episode; all by default.
            limit: the largest number of decisions.
            after: the number of a decision: only later ones.

        """
        if status not in STATUSES:
            raise unknown("status", status, STATUSES)
        wanted = {"status": status}
        if episode is not None:
            wanted["episode"] = check_episode(episode)
        most = None if limit is None else check_count("limit", limit)
        last, found, more = check_count("after", after, least=0), list[dict[str, Any]](), True
        while more and (most is None or len(found) < most):
            page = self._get(f"decisions?{urlencode({**wanted, 'after': last})}")
            found.extend(map(decode_labels, page["decisions"]))
            last, more = found[-1]["number"] if found else last, page["more"]
        return found[:most]

    def faults(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the records of rejected reports and late outcomes, the oldest first.

        Args:
            limit: only the last ones, at most that many; a service returns at most 1,000.

        """
        most = "" if limit is None else f"?limit={check_count('limit', limit)}"
        return list(self._get(f"faults{most}")["faults"])

    def status(self) -> TaskStatus:
        """Return the status of the task."""
        return TaskStatus(**{**self._get()["status"], "store": self.url})

    # results

    def certificate(self) -> Certificate:
        """Return the certificate of the policy from all events so far."""
        from ucfh.certificate import Certificate

        found = self._get("certificate")
        return Certificate.of_dict(found, np.array(found["policy"], dtype=np.int64, ndmin=2))

    def policy(self) -> LearnedPolicy:
        """Return the newest policy."""
        from ucfh.envs.policy import LearnedPolicy

        found = self._get("policy")
        states = [canonical(as_tuples(x)) for x in found["states"]]
        actions = [canonical(as_tuples(x), "action") for x in found["actions"]]
        numbers = np.zeros((found["horizon"], len(states) + 1), dtype=np.int64)  # 0: the end
        numbers[:, 1:] = np.reshape(found["table"], (found["horizon"], len(states)))
        return LearnedPolicy(RemoteNames(states, actions), numbers)

    def audit(self) -> AuditReport:
        """Return the audit report: tested assumptions and findings."""
        from ucfh.auditing.report import AssumptionCheck, AuditReport, Finding

        found = self._get("audit")
        return AuditReport(
            **{
                **found,
                "findings": tuple(Finding(**x) for x in found["findings"]),
                "tested": tuple(AssumptionCheck(**x) for x in found["tested"]),
            }
        )

    def export(self, path: AnyPath, force: bool = False) -> Path:
        """Write a log that `ucfh.read_log` reads to the same counts, and its settings file.

        Pending outcomes are missing in the log.

        Args:
            path: of a .jsonl file.
            force: whether to overwrite existing files.

        Returns:
            The path of the log.

        """
        from ucfh.logs.settings import settings_path, write_settings
        from ucfh.tasks.exporting import LOG_ASSUMPTIONS

        check_ending(path, ENDINGS)
        refuse_existing(settings_path(path), force)
        declared = self._get()["declaration"]
        states, silence = declared["states"], declared["on_timeout"]
        if states is not None and silence != LOST_ON_TIMEOUT and silence[0] not in states:
            states = [*states, silence[0]]
        with replacing(path, force) as temporary, temporary.open("wb") as file:
            for chunk in self._caller.stream(f"{self._path}/log.jsonl"):
                file.write(chunk)
        settings = {
            "states": None if states is None else log_names(states),
            "actions": log_names(declared["actions"]),
            "horizon": declared["horizon"],
            "segments": declared["segments"] or None,
            "rewards": declared["rewards"],
            "max_return": declared["max_return"],
            "dropouts": "lost",
        }
        write_settings(path, settings, force, LOG_ASSUMPTIONS)
        return Path(path)

    def _get(self, *what: str, wait: bool = True) -> Any:
        return self._caller.call("GET", "/".join([self._path, *what]), wait=wait)

    # closing

    def close(self) -> None:
        """Let go of the connections; the service goes on."""
        self._caller.close()

    def __enter__(self) -> RemoteTask:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteTask({self.name!r} at {self.url})"
