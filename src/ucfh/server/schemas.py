"""Message types: bodies of requests and responses.

Requests are validated by these types, and the OpenAPI document is generated from them. A state or
an action is a string, an integer, a boolean, or a list of these. Unknown fields are rejected.

A single call on an episode has its episode and step in the path; in a batch, they are fields.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ucfh.exceptions import InputError
from ucfh.tasks.config import LONGEST_NAME
from ucfh.tasks.errors import LateOutcomeWarning, TaskError
from ucfh.tasks.protocol import Decision, LateAnswer
from ucfh.tasks.task import MOST_CALLS, Task

MOST_SHOWN = 1000
"""Largest number of decisions in a response."""

LABEL: dict[str, Any] = {
    "description": "a state or an action",
    "anyOf": [
        {"type": "string"},
        {"type": "integer"},
        {"type": "boolean"},
        {"type": "array", "items": {"$ref": "#/components/schemas/Label"}},
    ],
}
"""The recursive JSON schema of a label, which Python types cannot express."""
LabelList = Annotated[
    list[Any], Meta(extra_json_schema={"items": {"$ref": "#/components/schemas/Label"}})
]
Label = str | int | bool | LabelList
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Step = Annotated[int, Meta(ge=0, le=10**9)]
TaskCall = Callable[[Any], Any]
"""A call as `Task.serve` takes it."""


LABELS = ("state", "next_state", "action", "actions", "states", "on_timeout")
"""Fields that contain labels."""


def check_label(value: Any) -> None:
    """Raise `ValueError` unless a list contains labels only."""
    for part in value:
        if isinstance(part, list):
            check_label(part)
        elif not isinstance(part, str | int):
            raise ValueError("a state or an action holds what is no text, whole number or list")


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request body without unknown fields."""

    def __post_init__(self) -> None:
        for field in LABELS:
            if type(value := getattr(self, field, None)) is list:
                check_label(value)


class NewTask(Body, kw_only=True):
    """The declaration of a task; see `ucfh.open_task`."""

    task: Name
    actions: LabelList
    horizon: Annotated[int, Meta(ge=1)]
    epsilon: Annotated[float, Meta(gt=0)]
    delta: float | None = None
    rewards: tuple[float, float] | None = None
    max_return: float | None = None
    states: LabelList | dict[str, LabelList | None] | None = None
    segments: list[int] | bool | None = None
    timeout: float | None = None
    on_timeout: Literal["lost"] | tuple[Label, float] | None = None


class Ask(Body, kw_only=True):
    """The state of an episode, and its actions if it is new and does not have all actions."""

    state: Label
    actions: LabelList | None = None

    def task_call(self, task: Task, episode: str, t: int | None) -> TaskCall:
        """Return the call on a task."""
        return task.asking(self.state, episode, t=t, actions=self.actions)


class Tell(Body, kw_only=True):
    """The outcome of a decision: the reward, and the next state or done.

    ``action`` is the action taken, if it is not the recommended one.
    """

    reward: float
    state: Label | None = None
    done: bool = False
    actions: LabelList | None = None
    action: Label | None = None

    def task_call(self, task: Task, episode: str, t: int) -> TaskCall:
        """Return the call on a task."""
        return task.telling(
            (episode, t),
            reward=self.reward,
            state=self.state,
            done=self.done,
            actions=self.actions,
            action=self.action,
        )


class Record(Body, kw_only=True):
    """A step whose action the task did not choose, with its outcome if that is known."""

    state: Label
    action: Label
    reward: float | None = None
    next_state: Label | None = None
    done: bool = False

    def task_call(self, task: Task, episode: str, t: int) -> TaskCall:
        """Return the call on a task."""
        return task.recording(
            episode, t, self.state, self.action, self.reward, self.next_state, self.done
        )


class Abandon(Body, kw_only=True):
    """The reason to abandon an episode."""

    reason: str = ""

    def task_call(self, task: Task, episode: str, t: None = None) -> TaskCall:  # noqa: ARG002
        """Return the call on a task."""
        return task.abandoning(episode, self.reason)


class EmptyBody(Body, kw_only=True):
    """No fields."""


class AskInBatch(Ask, tag_field="call", tag="ask", kw_only=True):
    """Ask for a decision."""

    episode: Name
    t: Step | None = None


class TellInBatch(Tell, tag_field="call", tag="tell", kw_only=True):
    """Report the outcome of a decision."""

    episode: Name
    t: Step


class RecordInBatch(Record, tag_field="call", tag="record", kw_only=True):
    """Record a step whose action the task did not choose."""

    episode: Name
    t: Step


class AbandonInBatch(Abandon, tag_field="call", tag="abandon", kw_only=True):
    """Abandon an episode."""

    episode: Name
    t: None = None


class CallList(Body, kw_only=True):
    """Calls in order; a rejected call is rolled back alone."""

    calls: Annotated[
        list[AskInBatch | TellInBatch | RecordInBatch | AbandonInBatch], Meta(max_length=MOST_CALLS)
    ]


class SignIn(Body, kw_only=True):
    """A token, to start a session of the dashboard."""

    token: str


class ProblemDetails(Struct, omit_defaults=True):
    """The problem details of a rejected request (RFC 9457).

    ``fault`` is the name of the exception that the same call on a task raises in Python.
    """

    type: str
    title: str
    status: int
    detail: str
    fault: str | None = None


class NextStep(Struct):
    """The next decision of an episode; null: the episode is over."""

    next: Decision | None


class Expired(Struct):
    """The number of expired decisions."""

    expired: int


EITHER = {
    "description": "what the same call gives alone",
    "anyOf": [
        {"$ref": f"#/components/schemas/{name}"} for name in ("Decision", "NextStep", "EmptyBody")
    ],
}


class CallAnswer(Struct, omit_defaults=True):
    """The answer of one call of a batch, or its problem details."""

    status: int
    answer: Annotated[Any, Meta(extra_json_schema=EITHER)] = None
    problem: ProblemDetails | None = None


class RequestError(Exception):
    """A request is rejected.

    Attributes:
        problem: the problem details. headers: additional headers of the response.

    """

    def __init__(self, status: int, detail: str, fault: str | None = None, **headers: str) -> None:
        super().__init__(detail)
        title = HTTPStatus(status).phrase
        self.problem = ProblemDetails("about:blank", title, status, detail, fault)
        self.headers = headers


def as_request_error(error: InputError) -> RequestError:
    """Return the rejection of a request by an error of a task or of its input."""
    if isinstance(error, TaskError):
        again = {"Retry-After": "1"} if error.status == 503 else {}
        return RequestError(error.status, str(error), type(error).__name__, **again)
    return RequestError(422, str(error), "InputError")


def answer_of(made: Any) -> Any:
    """Return the answer of a call on a task, or raise its error."""
    if isinstance(made, InputError):
        raise as_request_error(made)
    if isinstance(made, Exception):
        raise made
    if isinstance(made, LateAnswer):
        raise RequestError(LateOutcomeWarning.status, made.message, LateOutcomeWarning.__name__)
    return made


def plain_number(value: Any) -> Any:
    """Return a NumPy number or array as Python numbers."""
    return value.tolist()
