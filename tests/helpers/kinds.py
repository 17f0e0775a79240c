"""Which kernels commands call, and with what: `make kinds` writes it down for `ucfh.compilation`.

python tests/helpers/kinds.py          write it down
python tests/helpers/kinds.py USE      print it for one use
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ucfh import compilation
from ucfh.compilation import KINDS

LOG = "episode,t,state,action,reward,next_state\n" + "".join(
    f"{i},{t},{t * (i % 2)},{i % 3 % 2},{0.5 * (t == 2)},{(t + 1) * (i % 2)}\n"
    for i in range(8)
    for t in range(3)
)

USES = {
    "learn": "learn chain:n=5",
    "learn+--paper": "learn tutoring --epsilon 0.1 --paper",
    "learn+env:": "learn env:FrozenLake-v1,horizon=3 --epsilon 0.9 --max-return 1",
    "certify": "certify log.csv --epsilon 0.5",
    "audit": "audit log.csv",
    "plan": "plan model.json",
    "plan+--robust": "plan intervals.json --robust",
    "compare": "compare chain:n=3 --episodes 20 --seeds 1",
    "compare+--agents": "compare chain:n=3 --episodes 20 --seeds 1 --agents uniform,optimal",
    "verify": "verify chain:n=3 --epsilon 0.5 --runs 1",
    "tell": "",
    "serve": "",
}
"""What stands for each use; for `serve` and `tell`, planning a small task."""


def run(use: str, folder: Path) -> None:
    """Do it, in a folder with what it needs."""
    if not USES[use]:
        from ucfh.server.planner_pool import warm_up

        warm_up()
        return
    from ucfh import make
    from ucfh.cli.main import main
    from ucfh.comparison import runner
    from ucfh.interval_mdp import IntervalMDP
    from ucfh.io import write_model

    mdp = make("chain:n=3")
    write_model(mdp, folder / "model.json")
    lo, hi = 0.5 * mdp.p, np.minimum(1, 1.5 * mdp.p)
    between = IntervalMDP(mdp.problem, mdp.rewards, mdp.initial, lo, hi)
    write_model(between, folder / "intervals.json")
    (folder / "log.csv").write_text(LOG)

    def do_all(work: Any, jobs: Any, *_: Any, **__: Any) -> Any:  # in this process
        return ((job, work(job)) for job in jobs)

    vars(runner)["do_all"] = do_all
    os.chdir(folder)
    with redirect_stdout(StringIO()), suppress(SystemExit):
        main(USES[use].split())


def main() -> None:
    """Write down what each use calls, or print what one does."""
    if len(sys.argv) > 1:
        with TemporaryDirectory() as folder:
            run(sys.argv[1], Path(folder))
        print("\n".join(" ".join((sys.argv[1], *kind)) for kind in sorted(compilation.called())))
        return
    lines = [
        subprocess.run(
            [sys.executable, __file__, use], check=True, text=True, stdout=subprocess.PIPE
        )
        for use in USES
    ]
    KINDS.write_text("".join(done.stdout for done in lines))


if __name__ == "__main__":
    main()
