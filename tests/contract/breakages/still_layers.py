"""Layers that run once for each row of a phase: one-line mutations, and the tests that must notice."""

from tests.contract.mutations import of_file
from tests.engines.compiled import test_still_layers

MUTATIONS = [
    *of_file(
        "engines/compiled/library.py",
        ("augmented rows are taken for the same", "if not begin or steps.top is not None:", "if not begin:"),
        ("labels of other rows", "Data(values, data.y[rows])", "Data(values, data.y[: len(rows)])"),
        ("rows that are seen once are kept", "if len(rows) == int((steps.index >= 0).sum()) or ", "if "),
        ("memory has no end", " or len(rows) * size * 4 > LARGEST_KEPT", ""),
        ("memory of bytes is counted in numbers", "len(rows) * size * 4 >", "len(rows) * size >"),
    ),
    *of_file(
        "engines/compiled/memory.py",
        (
            "what fills up a batch is a row",
            "torch.where(index < 0, index, table[index.clamp(min=0)])",
            "table[index.clamp(min=0)]",
        ),
        (
            "rows are counted from the first that is seen",
            "table[rows] = torch.arange(len(rows))",
            "table[rows] = rows",
        ),
    ),
    *of_file(
        "engines/compiled/chain.py",
        (
            "a layer that moves stays as it is",
            "self.layers[count].span[1] <= first",
            "self.layers[count].span[0] <= first",
        ),
        ("one layer too few stays", "self.layers[count].span[1] <= first", "self.layers[count].span[1] < first"),
    ),
]
CHECKS = [
    *(
        (test_still_layers.test_has_the_bits_of_running_all_layers_in_each_step, *case)
        for case in test_still_layers.CASES
    ),
    (test_still_layers.test_the_layers_below_see_each_row_once_and_all_that_are_seen,),
    (test_still_layers.test_not_where_rows_are_augmented_or_seen_once_or_their_values_are_too_large,),
]
