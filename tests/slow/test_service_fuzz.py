"""Requests that schemathesis makes from the OpenAPI document, statefully and in all phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.services import check_document


@pytest.mark.parametrize("of_one_task", [True, False])
def test_requests_made_from_the_document(tmp_path: Path, of_one_task: bool) -> None:
    print(check_document(tmp_path, "examples,coverage,fuzzing,stateful", 50, of_one_task))
