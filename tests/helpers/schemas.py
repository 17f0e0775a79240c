"""Requests made from the OpenAPI document of a service, right and wrong ones, by schemathesis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.near_service import near_service
from ucfh.server.tokens import WRITE, TokenFile
from ucfh.tasks.opening import open_task

# What a task declares, its actions and its range of rewards, no schema can say: that is a 422.
SETTINGS = """
[checks]
positive_data_acceptance.expected-statuses = [200, 201, 401, 404, 409, 410, 422]
"""
ONE_TASK = """
[parameters]
"path.task" = "t"
"""


def check_document(folder: Path, phases: str, examples: int, of_one_task: bool) -> str:
    """Send requests of every kind that the document lists; what schemathesis says.

    Of one task: names of other tasks are not made up, so that most requests come through.
    """
    open_task(
        folder / "t.db", "t", actions=["a", "b"], horizon=3, epsilon=0.5, planning="off"
    ).close()
    tokens = TokenFile(str(folder / "tokens.json"), create=True)
    _, text = tokens.add(WRITE, None)
    config = folder / "schemathesis.toml"
    config.write_text(SETTINGS + (ONE_TASK if of_one_task else ""))
    with near_service(folder / "t.db", tokens) as url:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                *("run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {text}"),
                *("--phases", phases, "--max-examples", str(examples), "--seed", "1"),
                *("--exclude-path", "/v1/tasks/{task}/events"),  # it does not end
                *("--exclude-checks", "negative_data_rejection") * of_one_task,
                *("--generation-database", "none", "--no-color", "--warnings", "off"),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
