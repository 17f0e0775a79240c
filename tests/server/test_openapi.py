"""The OpenAPI document, and requests that are made from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.services import check_document, local_service
from ucfh.server.endpoints import ENDPOINTS


def test_it_lists_every_request(tmp_path: Path) -> None:
    with local_service(tmp_path) as local:
        found = local.send("GET", "/openapi.json").json
    listed = {(method.upper(), path) for path, x in found["paths"].items() for method in x}
    assert listed == {(x.method, x.path) for x in ENDPOINTS}
    assert '"items": false' not in json.dumps(found)  # generators of clients refuse it
    named = set(re.findall(r"#/components/schemas/(\w+)", str(found)))
    assert named <= found["components"]["schemas"].keys()


@pytest.mark.slow
def test_requests_made_from_it(tmp_path: Path) -> None:
    said = check_document(tmp_path, "fuzzing", 4, of_one_task=True)
    assert "Tested: 24" in said
