"""An algorithm of the sites' own, as a plug-in: FedMD under another name."""

from unalike.algorithms import FedMd, algorithm


@algorithm("plugged-fedmd")
class Plugged(FedMd):
    """FedMD, from a file that the sites gave themselves."""
