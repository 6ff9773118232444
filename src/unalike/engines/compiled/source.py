"""The C source of one net: its shapes as constants, the kernels, and the order in which they are called."""

from __future__ import annotations

from importlib.resources import files

from unalike.engines.compiled.chain import Chain, Layer

KERNELS = ("vector.h", "convolution.h", "pooling.h", "linear.h")
ENTRIES = ("data.h", "rows.h", "terms.h", "scores.h", "training.h", "entry.h", "dense.h")
SPARSE = ("data.h", "sparse.h", "terms.h", "scores.h", "training.h", "entry.h")
TILE_VECTORS = 2
"""As in ``vector.h``."""
FLAT_BLOCK = 64
"""Rows that go through a net without convolutions at a time; with convolutions it is one tile, for the cache."""
FIRST_CACHE = 24 * 1024
"""Bytes that a strip of a convolution may take."""
CROP = 4
"""The padding of ``unalike.data.augment``."""


def source_of(chain: Chain, width: int) -> str:
    """The C source for vectors of ``width`` floats."""
    entries = SPARSE if chain.sparse else ENTRIES
    parts = [_constants(chain, width), *map(_read, KERNELS), _calls(chain, width), *map(_read, entries)]
    return "\n".join(parts)


def block_of(chain: Chain, width: int) -> int:
    """How many rows go through the net at a time."""
    tile = TILE_VECTORS * width
    return tile if chain.convolves else max(tile, FLAT_BLOCK)


def _read(name: str) -> str:
    return (files("unalike.engines.compiled") / "kernels" / name).read_text(encoding="utf-8")


class _Tape:
    """Where things lie on the tape of one block, in floats."""

    def __init__(self, chain: Chain, width: int) -> None:
        block, tile = block_of(chain, width), TILE_VECTORS * width
        # Sparse rows are never filled up: the first values on the tape are those that the first layer makes.
        sizes = [0 if chain.sparse else chain.input.size, *(layer.made.size for layer in chain.layers)]
        self.strides = [-(-size // tile) * tile for size in sizes]
        self.values: list[int] = []
        end = 0
        for size in sizes:
            self.values.append(end)
            end += size * block
        self.rows = end
        # The input of a linear layer, one row after the other, while its weights' gradient is summed.
        flat = [s for s, layer in zip(self.strides, chain.layers, strict=False) if layer.kind == "linear"]
        self.turned = self.rows + self.strides[0] * block
        self.more = self.turned + max(flat) * block
        self.told = self.more + sizes[-2] * block
        self.end = self.told + sizes[-1] * block


def _constants(chain: Chain, width: int) -> str:
    tape, given = _Tape(chain, width), chain.input
    constants = {
        "V": width,
        "BLOCK": block_of(chain, width),
        "INPUT": given.size,
        "CHANNELS": given.channels,
        "HEIGHT": given.height,
        "WIDTH": given.width,
        "CROP": CROP,
        "WEIGHTS": chain.size,
        "LAYERS": len(chain.layers),
        "CLASSES": chain.layers[-1].made.size,
        "FEATURES": chain.layers[-1].given.size,
        "AT_INPUT": tape.values[0],
        "AT_FEATURES": tape.values[-2],
        "AT_LOGITS": tape.values[-1],
        "AT_ROWS": tape.rows,
        "ROW_STRIDE": tape.strides[0],
        "AT_MORE": tape.more,
        "AT_TOLD": tape.told,
        "TAPE": tape.end,
    }
    if chain.sparse:
        constants |= _first(chain.layers[0], tape, width)
    tables = {
        "BEFORE": tape.values,  # where the values before each layer lie, and how many a row has there
        "SIZES": [given.size, *(layer.made.size for layer in chain.layers)],
    }
    lines = [f"#define {name} {value}\n" for name, value in constants.items()]
    lines += [f"static const int {name}[] = {{{', '.join(map(str, t))}}};\n" for name, t in tables.items()]
    return "".join(lines)


def _first(layer: Layer, tape: _Tape, width: int) -> dict[str, int]:
    """What the first layer on sparse rows is."""
    return {
        "AT_MADE": tape.values[1],
        "FIRST_WEIGHT": layer.weight,
        "FIRST_BIAS": layer.bias,
        "FIRST_END": layer.span[1],
        "FIRST_MADE": layer.made.size,
        "FIRST_VECTORS": -(-layer.made.size // width),
        "FIRST_RELU": int(layer.made.relu),
    }


def _calls(chain: Chain, width: int) -> str:
    tape = _Tape(chain, width)
    forward = [_forward(layer, *_places(tape, k)) for k, layer in enumerate(chain.layers)]
    backward: list[str] = []
    first = int(chain.sparse)
    for k in reversed(range(first, len(chain.layers))):
        backward += _backward(chain, tape, k, width)
    return "\n".join(
        [
            "/* The layers from number `begin` up to, but not with, number `end`. */",
            "static void forward(const float *w, const float *frozen, float *tape, int lanes, int begin,",
            "                    int end) {",
            "    (void)w, (void)frozen, (void)tape, (void)lanes, (void)begin, (void)end;",
            *(f"    if (begin <= {k} && {k} < end) {line};" for k, line in enumerate(forward) if k >= first),
            "}\n",
            "/* For the weights from `first` up to `last`: a layer with one of them gets its gradient whole. */",
            "static void backward(const float *w, const float *frozen, float *tape, const float *more,",
            "                     float *d_w, int count, int lanes, int64_t first, int64_t last) {",
            "    (void)w, (void)frozen, (void)tape, (void)more, (void)d_w, (void)count, (void)lanes;",
            "    (void)first, (void)last;",
            *(f"    {line}" for line in backward),
            "}\n",
        ]
    )


def _places(tape: _Tape, k: int) -> tuple[str, str]:
    return f"tape + {tape.values[k]}", f"tape + {tape.values[k + 1]}"


def _at(layer: Layer, what: str, vector: str, frozen: str) -> str:
    """Where a layer has its weight or bias: in one vector, or, if it is frozen, in the other; 0 is nowhere."""
    place: int = getattr(layer, what)
    there = frozen if what in layer.frozen else vector
    return f"{there} + {place}" if there and place >= 0 else "0"


def _weights(layer: Layer) -> str:
    return f"{_at(layer, 'weight', 'w', 'frozen')}, {_at(layer, 'bias', 'w', 'frozen')}"


def _gradients(layer: Layer) -> str:
    return f"{_at(layer, 'weight', 'd_w', '')}, {_at(layer, 'bias', 'd_w', '')}"


def _shape(layer: Layer) -> str:
    given = layer.given
    if layer.kind == "linear":
        return f"{given.size}, {layer.made.size}"
    shape = f"{given.channels}, {given.height}, {given.width}"
    if layer.kind == "pooling":
        return shape
    made = layer.made
    return (
        f"(struct shape){{{shape}, {made.channels}, {made.height}, {made.width}, {layer.kernel}, {layer.padding}}}"
    )


def _forward(layer: Layer, given: str, made: str) -> str:
    weights = "" if layer.kind == "pooling" else f"{_weights(layer)}, "
    return f"{layer.kind}({weights}{given}, {made}, {_shape(layer)}, {int(layer.made.relu)}, lanes)"


def _backward(chain: Chain, tape: _Tape, k: int, width: int) -> list[str]:
    """The gradient of a layer's weights, then of what went into it; each only where weights that move need it."""
    lines: list[str] = []
    start, stop = chain.layers[k].span
    if start < stop:
        gradient = _gradient(chain, tape, k, width)
        lines += [f"if (first < {stop} && {start} < last) {{", *(f"    {call};" for call in gradient), "}"]
    below = max((layer.span[1] for layer in chain.layers[:k]), default=0)
    if below:
        lines += [f"if (first >= {below}) return;", f"{_back(chain, tape, k)};"]
    return lines


def _gradient(chain: Chain, tape: _Tape, k: int, width: int) -> list[str]:
    """The calls that add to the gradient of a layer's weights."""
    layer, (given, grad) = chain.layers[k], _places(tape, k)
    if layer.kind == "convolution":
        strip = _strip(layer, block_of(chain, width))
        return [f"convolution_weights({given}, {grad}, {_gradients(layer)}, {_shape(layer)}, {strip}, lanes)"]
    size, stride, rows = layer.given.size, tape.strides[k], f"tape + {tape.rows if k == 0 else tape.turned}"
    turn = [f"transpose({given}, BLOCK, {rows}, {stride}, {size}, lanes)"] if k else []
    sizes = f"{size}, {stride}, {layer.made.size}, count, lanes"
    return [*turn, f"linear_weights({rows}, {grad}, {_gradients(layer)}, {sizes})"]


def _back(chain: Chain, tape: _Tape, k: int) -> str:
    """The call that replaces what went into a layer by its gradient."""
    layer, (given, grad) = chain.layers[k], _places(tape, k)
    weights = "" if layer.kind == "pooling" else f"{_at(layer, 'weight', 'w', 'frozen')}, "
    more = "" if layer.kind != "linear" else "more, " if k == len(chain.layers) - 1 else "0, "
    return f"{layer.kind}_back({weights}{grad}, {more}{given}, {_shape(layer)}, {int(layer.given.relu)}, lanes)"


def _strip(layer: Layer, block: int) -> int:
    """Rows of a convolution's output that are summed at a time."""
    row = (layer.given.width + 2 * layer.made.width) * block * 4
    return min(layer.made.height, max(4, FIRST_CACHE // row))
