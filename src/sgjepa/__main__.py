"""`python -m sgjepa`, the command `sgjepa`; Ctrl-C is handled before anything else is imported."""

import sys

from sgjepa.core import interrupts


def main() -> int:
    """Run the command and return its exit code."""
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
