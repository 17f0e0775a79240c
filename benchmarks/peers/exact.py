"""QuantEcon's backward induction: ``python exact.py model.npz values.npy repeats``.

Prints the seconds of the dense form (nan where it would not fit) and of the sparse one.
"""

from __future__ import annotations

import sys
import warnings
from time import perf_counter

import numpy as np
from quantecon.markov import (  # type: ignore[import-not-found]
    DiscreteDP,
    backward_induction,
)
from scipy.sparse import csr_matrix

MOST_DENSE = 10**8  # entries


def best(ddp: DiscreteDP, horizon: int, repeats: int) -> tuple[float, np.ndarray]:
    seconds = []
    for _ in range(repeats + 1):  # the first one compiles
        started = perf_counter()
        values, _ = backward_induction(ddp, horizon)
        seconds.append(perf_counter() - started)
    return min(seconds[1:]), values


def main(model_file: str, values_file: str, repeats: int) -> None:
    warnings.simplefilter("ignore")  # no discounting: only finite horizons can be solved
    model = np.load(model_file)
    r, H = model["r"], int(model["horizon"])
    S, A = r.shape
    rows = csr_matrix((model["p"], model["indices"], model["indptr"]), shape=(S * A, S))
    s, a = np.divmod(np.arange(S * A), A)
    sparse, values = best(DiscreteDP(r.ravel(), rows, 1.0, s, a), H, repeats)
    dense = np.nan
    if S * A * S <= MOST_DENSE:
        dense, values = best(DiscreteDP(r, rows.toarray().reshape(S, A, S), 1.0), H, repeats)
    np.save(values_file, values[0])
    print(dense, sparse)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
