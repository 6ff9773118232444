"""The server's logic for tests: carries out exchanges that the test orders by files in the federation's folder."""

import json
import random
import time
from pathlib import Path


def payload(node, order):
    """What the order's message to a node is; the test knows it too."""
    return random.Random(f"{node} {order['name']}").randbytes(order["size"])


def serve(transport, folder):
    orders = Path(folder) / "orders"
    orders.mkdir(exist_ok=True)
    while True:
        for path in sorted(orders.glob("*.order")):
            order = json.loads(path.read_text())
            if order["name"] == "end":
                path.rename(path.with_suffix(".taken"))
                return
            carry_out(transport, order, path)
        time.sleep(0.05)


def carry_out(transport, order, path):
    end = time.monotonic() + order["patience"]
    while len(nodes := transport.nodes()) < order["nodes"] and time.monotonic() < end:
        time.sleep(0.1)
    begin = time.monotonic()
    messages = {node: payload(node, order) for node in nodes}
    answers = {}
    for node, answer in transport.send(messages, order["seconds"]):
        right = answer == messages[node][::-1]
        answers[node] = "right" if right else getattr(answer, "reason", "wrong bytes")
    result = {"nodes": nodes, "answers": answers, "seconds": time.monotonic() - begin}
    result["keys"] = {node: key.decode() for node, key in transport.keys().items()}
    path.with_suffix(".part").write_text(json.dumps(result))
    path.with_suffix(".part").rename(path.with_suffix(".result"))
    path.unlink()
