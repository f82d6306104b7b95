"""Run all benchmarks one after the other: `make bench`. Figures are ratios within one run."""

import runpy
import sys

BENCHMARKS: tuple[tuple[str, list[str]], ...] = (
    ("benchmarks.stage_runner", []),
    ("benchmarks.own_step", ["--rounds", "1"]),
    ("benchmarks.worker_processes", []),
    ("benchmarks.ray_engine", []),
    ("benchmarks.scale_model", []),
    ("benchmarks.postgres_commit", []),
    ("benchmarks.shards", []),
    ("benchmarks.claiming", []),
    ("benchmarks.run_again", []),
    ("benchmarks.inspect_images", []),
    ("benchmarks.release_build", []),
    ("benchmarks.release_verify", []),
    ("benchmarks.faithfulness", []),
    ("benchmarks.association", []),
    ("benchmarks.retrieval_metrics", ["--rounds", "2"]),
    ("benchmarks.near_duplicates", []),
    ("benchmarks.contamination", []),
    ("benchmarks.image_download", []),
    ("benchmarks.release_export", []),
    ("benchmarks.explorer", ["--images", "10000"]),
    ("benchmarks.beside_peers", []),
    ("benchmarks.cfam_training", []),
    ("benchmarks.shortcuts", []),
    ("benchmarks.shortcuts", ["--demonstration"]),
    ("benchmarks.paired_null", []),
    ("benchmarks.caption_validators", []),
)

for module, arguments in BENCHMARKS:
    print(f"\n== python -m {' '.join([module, *arguments])}", flush=True)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")
