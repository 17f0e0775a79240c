"""Run every command once, in the environment of this Python: does the command line work at all?

For environments other than the one that tests run in, such as one with the lowest versions of all
dependencies: it needs nothing but the package and its extras. Exit code 1 if a command fails.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

MODEL = "chain:n=3,horizon=3"
CREATE = "--actions call,mail --horizon 2 --epsilon 0.5"


class Smoke:
    """Runs commands in a folder and keeps what failed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.failed = folder, 0

    def run(self, command: str, shows: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """Run a command; it fails if its exit code or its output is another, or it crashes."""
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "ucfh", *command.split()],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        crashed = "Traceback" in done.stderr
        good = done.returncode in codes and shows in done.stdout and not crashed
        print(f"{'ok' if good else 'FAILED':>8} {time.perf_counter() - begun:6.1f} s  {command}")
        if not good:
            self.failed += 1
            print(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def serve(self) -> None:
        """Start the service, ask for a decision and read the certificate."""
        self.run(f"task create served.db {CREATE}")
        process = subprocess.Popen(
            [sys.executable, "-m", "ucfh", "serve", "served.db", "--port", "0"],
            cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            address = next(x for x in process.stdout.readline().split() if x.startswith("http"))
            url = f"{address.rstrip('/')}/v1/tasks/task"
            asked = urllib.request.Request(
                f"{url}/episodes/e/steps/0", json.dumps({"state": "new"}).encode(), method="PUT"
            )
            asked.add_header("Content-Type", "application/json")
            answers = [urllib.request.urlopen(x, timeout=60).read() for x in (asked, url)]
            good = json.loads(answers[0])["action"] in ("call", "mail")
        finally:
            process.terminate()
            process.wait(60)
        print(f"{'ok' if good else 'FAILED':>8}           serve: PUT, GET")
        self.failed += not good

    def every_command(self) -> None:
        """All of them."""
        from ucfh.cli.main import COMMANDS

        for name in COMMANDS:
            self.run(f"{name} --help", f"ucfh {name}")
        self.run("--version", "ucfh")
        self.run("no-such-command", codes=(2,))
        self.run(f"learn {MODEL} --epsilon 0.5 --policy learned.csv --plot learned.png", "known")
        self.run("learn env:mine:smoke/World-v0,horizon=3 --episodes 50 --json", '"upper"', (0, 3))
        self.run("certify log.csv --html page.html --plot log.png", "known", (0, 3))
        self.run("certify log.parquet --json", '"upper"', (0, 3))
        self.run("audit log.csv", codes=(0, 3))
        self.run("plan model.json --policy plan.csv")
        self.run("evaluate plan.csv model.json")
        self.run("act learned.csv --state 0 --t 1")
        self.run(f"compare {MODEL} --agents ucfh,ucbvi-ch --seeds 2 --episodes 50 --csv runs.csv")
        self.run("bounds --states 4 --actions 2 --horizon 3 --epsilon 0.1 --delta 0.1")
        self.run("problems chain")
        self.run("agents")
        self.run(f"task create calls.db {CREATE}")
        self.run("ask calls.db new --episode a --json", "action")
        self.run("tell calls.db --episode a --step 0 --reward 1 --done")
        self.run("task certificate calls.db", codes=(0, 3))
        self.run("token create --file tokens.json --name office")
        self.serve()


WORLD = """
import gymnasium


class World(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return int(action), float(action), self.t == 3, False, {}


gymnasium.register("smoke/World-v0", entry_point=World)
"""


def main() -> int:
    """Run all, and return the exit code."""
    import pyarrow
    from pyarrow import parquet

    from ucfh import make
    from ucfh.io import write_model

    draw = random.Random(1)
    columns: dict[str, list[object]] = {x: [] for x in ("episode", "t", "state", "action")}
    columns |= {"reward": [], "next_state": []}
    for episode in range(200):
        state = "new"
        for t in range(2):
            action = draw.choice(["call", "mail"])
            after = draw.choice(["new", "warm"])
            row = (episode, t, state, action, draw.randrange(2), after)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state = after
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        parquet.write_table(pyarrow.table(columns), path / "log.parquet")
        lines = zip(*columns.values(), strict=True)
        text = "\n".join(",".join(map(str, line)) for line in (list(columns), *lines))
        (path / "log.csv").write_text(text + "\n")
        (path / "mine.py").write_text(WORLD)
        write_model(make(MODEL), path / "model.json")
        smoke = Smoke(path)
        smoke.every_command()
    print(f"{smoke.failed} failed")
    return int(smoke.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
