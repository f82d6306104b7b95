"""Compares what two descriptions state: every attribute that was added, lost or contradicted.

`comparison` goes from the whole to its parts: the person (`persons`), the hair (`hair`), then each
item beside the one that means the same (`item_matching`, `items`), with its colours (`colours`),
its other attributes (`garments`) and its parts (`parts`). What is measured in steps is compared by
`scales`. Last comes a net under what the parser attaches wrongly: colours and sides that the
source names nowhere (`strange_words`). `findings` words each difference.
"""

from stages.description_differences.comparison import find_differences

__all__ = ["find_differences"]
