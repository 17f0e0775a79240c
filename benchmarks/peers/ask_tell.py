"""Optuna's ask and tell: ``ask_tell.py FOLDER sqlite|journal TRIALS`` prints trials a second.

One parameter, a choice of four, drawn at random: the cheapest sampler. Both storages synchronise
with the disk whatever they commit; a trial takes several commits.
"""

from __future__ import annotations

import sys
from time import perf_counter

import optuna  # type: ignore[import-not-found]
from optuna.storages import JournalStorage, RDBStorage  # type: ignore[import-not-found]
from optuna.storages.journal import JournalFileBackend  # type: ignore[import-not-found]

CHOICES = {"action": optuna.distributions.CategoricalDistribution(["a", "b", "c", "d"])}


def main(folder: str, kind: str, trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if kind == "sqlite":
        storage = RDBStorage(f"sqlite:///{folder}/optuna.db")
    else:
        storage = JournalStorage(JournalFileBackend(f"{folder}/optuna.log"))
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=storage, sampler=sampler)
    began = perf_counter()
    for _ in range(trials):
        trial = study.ask(CHOICES)
        study.tell(trial, 0.5)
    print(trials / (perf_counter() - began))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
