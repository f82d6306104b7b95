"""The stage runner with full provenance, compared with map-and-save of datachain.

    python -m benchmarks.stage_runner [--records 100000] [--peer PYTHON]

A pass-through stage copies every record into a new dataset: entity, derivation, work row, activity,
agents. Reported are records per second, the ratio to datachain (in a separate environment, created
with `uv` unless `--peer` is given), the growth of memory from a tenth of the records to all, and
the speed of a run over finished work. Each measurement runs in a separate process.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import elapsed, peak_mib, run_apart
from benchmarks.peers import Peer, python_of
from loupe.db.entities import NewEntity, StoredEntity, WorkResult, new_entity
from loupe.db.work import Pending
from loupe.flows.engine.context import RunContext, open_context
from loupe.flows.engine.runner import Stage, run_stage, run_stream
from loupe.models.profiles.settings import load_settings
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption

PEER = Peer("datachain", ("datachain==0.62.0",), "datachain_map.py")
FLAT_GROWTH = 1.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--peer", type=Path, help="Python with datachain installed")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.records, arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        few = in_process(arguments.records // 10, root / "few")
        many = in_process(arguments.records, root / "many")
        peer = peer_speed(arguments.peer or python_of(PEER, root), arguments.records, root / "peer")
    report(many, few, peer)


def measure(records: int, home: Path) -> dict[str, float]:
    """Copy `records` records; return speeds in records per second and memory in MiB."""
    context = open_context(load_settings(home=home))
    seed(context, records)
    first, again = (elapsed(lambda: copy_all(context)) for _ in range(2))
    return {"speed": records / first, "speed_again": records / again, "peak_mib": peak_mib()}


def seed(context: RunContext, records: int) -> None:
    stage = Stage("seed", "1", "seeded", {}, chunk_size=1000)

    def work(numbers: Sequence[tuple[int, int]]) -> list[WorkResult]:
        return [WorkResult(number, entities=(caption(number),)) for number, _ in numbers]

    run_stream(context, stage, ((number, number) for number in range(records)), work)


def caption(number: int) -> NewEntity:
    text = f"caption number {number} of a person in a red coat"
    return new_entity(Caption(source="bench", text=text, position=0), "seeded")


def copy_all(context: RunContext) -> None:
    stage = Stage("copy", "1", "copied", {}, chunk_size=1000)

    def work(captions: Sequence[StoredEntity]) -> list[WorkResult]:
        return [
            WorkResult(
                entity.seq,
                entities=(
                    new_entity(
                        entity.record(Caption), "copied", parents=[(Role.SAMPLED_FROM, entity.id)]
                    ),
                ),
            )
            for entity in captions
        ]

    run_stage(context, stage, Pending("seeded", Caption.kind, ("proposed",)), work)


def in_process(records: int, home: Path) -> dict[str, float]:
    options = ("--records", records, "--measure", home)
    result: dict[str, float] = run_apart("stage_runner", *options)
    return result


def peer_speed(python: Path, records: int, home: Path) -> float:
    script = Path(__file__).parent / "peers" / PEER.script
    command = [str(python), str(script), str(records), str(home)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def report(many: dict[str, float], few: dict[str, float], peer: float) -> None:
    print(f"pass-through with full provenance   {many['speed']:>10,.0f} records/s")
    print(f"datachain map and save              {peer:>10,.0f} rows/s")
    print(f"  ratio                             {many['speed'] / peer:>10.2f}  (wanted: 3)")
    print(f"again over finished work            {many['speed_again']:>10,.0f} records/s")
    growth = many["peak_mib"] / few["peak_mib"]
    peaks = f"{few['peak_mib']:,.0f} and {many['peak_mib']:,.0f} MiB"
    print(f"peak memory, a tenth and all        {peaks:>10}")
    print(f"  growth                            {growth:>10.2f}  (flat: below {FLAT_GROWTH})")


if __name__ == "__main__":
    main()
