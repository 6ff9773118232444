"""``python -m unalike`` is the ``unalike`` command."""

from unalike.cli.start import main

main()
