"""Download speed of img2dataset; runs in a separate environment.

python img2dataset_download.py URLS FOLDER PROCESSES THREADS [LONGEST_PX]

Without LONGEST_PX, images are neither decoded nor encoded. Prints the number of downloaded images,
the seconds from the start of the first shard to the end of the last as reported by img2dataset,
and the processor seconds of all its processes. The start of the processes is excluded by
subtracting the download of a single URL.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise it checks for a newer version on the web

from img2dataset import download

urls, folder, processes, threads = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5])
longest = int(sys.argv[5]) if len(sys.argv) > 5 else None
resizing: dict[str, Any] = {"disable_all_reencoding": True}
if longest is not None:
    resizing = {"resize_mode": "keep_ratio_largest", "resize_only_if_bigger": True}
    resizing |= {"image_size": longest}


def processor_seconds() -> float:
    """Processor seconds of this process and its finished child processes."""
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
