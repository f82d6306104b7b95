"""Processor seconds of imagededup for hashing images; runs in a separate environment.

python imagededup_hash.py FOLDER
"""

import sys
import time
from pathlib import Path

from imagededup.methods import PHash

files = sorted(Path(sys.argv[1]).iterdir())
hasher = PHash(verbose=False)
hasher.encode_image(image_file=files[0])
started = time.process_time()
for file in files:
    hasher.encode_image(image_file=file)
print(time.process_time() - started)
