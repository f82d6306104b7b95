"""vLLM's knowledge of models and flags; called in the environment where vLLM is installed."""

from collections.abc import Sequence


def unknown_architectures(launches: Sequence[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Return the names of models, given as (name, architecture, flags), that vLLM does not know.

    Also parses the flags.
    """
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    for name, _, flags in launches:
        parser.parse_args(["--model", name, *flags])
    known = set(ModelRegistry.get_supported_archs())
    return [name for name, architecture, _ in launches if architecture not in known]
