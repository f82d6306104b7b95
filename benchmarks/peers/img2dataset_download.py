"""Images per second that img2dataset downloads; runs in an environment of its own.

python img2dataset_download.py URLS FOLDER PROCESSES THREADS [LONGEST_PX]

Without a length nothing is encoded again, nor decoded. Prints how many were downloaded, the seconds
from the begin of the first shard to the end of the last as img2dataset reports them, and the
processor seconds of all its processes. That these start is in neither: what a download of one
address takes is taken off.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # it would ask the web for a newer version

from img2dataset import download

urls, folder, processes, threads = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
longest = int(sys.argv[5]) if len(sys.argv) > 5 else None
resizing: dict[str, Any] = {"disable_all_reencoding": True}
if longest is not None:
    resizing = {"resize_mode": "keep_ratio_largest", "resize_only_if_bigger": True}
    resizing |= {"image_size": longest}


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def spent(url_list: str, output: Path) -> float:
    """Processor seconds of a download."""
    before = processor_seconds()
    download(
        url_list=url_list,
        output_folder=str(output),
        output_format="webdataset",
        processes_count=processes,
        thread_count=threads,
        number_sample_per_shard=500,
        **resizing,
    )
    return processor_seconds() - before


if __name__ == "__main__":
    one = Path(f"{urls}.one.txt")
    one.write_text(Path(urls).read_text().splitlines()[0])
    starting = spent(str(one), Path(f"{folder}.one"))
    processor = spent(urls, folder) - starting
    shards = [json.loads(path.read_text()) for path in folder.glob("*_stats.json")]
    started = min(shard["start_time"] for shard in shards)
    ended = max(shard["end_time"] for shard in shards)
    print(sum(shard["successes"] for shard in shards), ended - started, processor)
