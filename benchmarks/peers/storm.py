"""Storm on an interval MDP: ``python storm.py model.npz values.npy repeats`` prints seconds.

Only solving is timed: R{"r"}max=? [C<=H] in all states, nature cooperating.
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
import stormpy  # type: ignore[import-not-found]
from stormpy.datastructures import SparseMatrixBuilder  # type: ignore[import-not-found]
from stormpy.models import (  # type: ignore[import-not-found]
    SparseMdp,
    SparseModelComponents,
    SparseRewardModel,
    StateLabeling,
)


def main(model_file: str, values_file: str, repeats: int) -> None:
    model = np.load(model_file)
    indptr, indices = model["indptr"], model["indices"]
    S, A = model["r"].shape
    intervals = [stormpy.Interval(lo, hi) for lo, hi in zip(model["lo"], model["hi"], strict=True)]
    builder = SparseMatrixBuilder[stormpy.Interval](
        rows=S * A,
        columns=S,
        entries=len(indices),
        has_custom_row_grouping=True,
        row_groups=S,
    )
    rows = np.repeat(np.arange(S * A), np.diff(indptr))
    groups = list(range(0, S * A, A))
    builder.add_next_values(rows.tolist(), indices.tolist(), intervals, groups)
    labels = StateLabeling(S)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    earned = [stormpy.Interval(x, x) for x in model["r"].ravel()]
    rewards = SparseRewardModel[stormpy.Interval](optional_state_action_reward_vector=earned)
    mdp = SparseMdp[stormpy.Interval](
        SparseModelComponents[stormpy.Interval](
            transition_matrix=builder.build(), state_labeling=labels, reward_models={"r": rewards}
        )
    )
    (query,) = stormpy.parse_properties(f'R{{"r"}}max=? [C<={int(model["horizon"])}]')
    seconds = []
    for _ in range(repeats):
        started = perf_counter()
        result = stormpy.model_checking(
            mdp,
            query,
            uncertainty_resolution_mode=stormpy.UncertaintyResolutionMode.COOPERATIVE,
        )
        seconds.append(perf_counter() - started)
    np.save(values_file, np.array([result.get_value(s) for s in range(S)], np.float64))
    print(min(seconds))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
