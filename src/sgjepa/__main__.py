"""`python -m sgjepa` is the command `sgjepa`. Ready for Ctrl-C before anything else is imported."""

import sys

from sgjepa.core import interrupts


def main() -> int:
    """The command; returns its exit code."""
    interrupts.catch()
    from sgjepa import cli

    try:
        return cli.main()
    except KeyboardInterrupt:  # before it could listen, or a second one while it answered
        interrupts.say()
        return interrupts.CODE
    finally:
        interrupts.leave()


if __name__ == "__main__":
    sys.exit(main())
