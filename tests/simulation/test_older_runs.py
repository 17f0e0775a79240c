"""A run that version 0.5.0 saved: read for ever, and resumed by that version only."""

from __future__ import annotations

import pytest

from support.settings import TESTS
from ucfh import CertifiedUCFH, InputError, Run, make, simulate

KEPT = TESTS / "data" / "run-0.5.0.npz"
"""50 episodes of ``ucfh learn chain:n=3,horizon=3 --epsilon 0.001``."""


def test_an_older_run_is_read() -> None:
    run = Run.load(KEPT)
    assert (run.episodes, run.final, run.about["version"]) == (50, False, "0.5.0")
    assert run.certificate is not None
    assert not run.certificate.certified
    assert run.certificate.lower <= run.value <= run.optimal <= run.certificate.upper
    assert run.checkpoint is not None


def test_an_older_run_is_not_resumed() -> None:
    mdp = make("chain:n=3,horizon=3")
    with pytest.raises(InputError) as caught:
        simulate(mdp, CertifiedUCFH(mdp.problem, 0.001, 0.1), 100, resume=Run.load(KEPT))
    message = str(caught.value)
    assert message.startswith("the saved run was made by ucfh 0.5.0, and this is ")
    assert len(message.splitlines()) == 1
