"""`python -m sgjepa` is the command `sgjepa`."""

import sys

from sgjepa.cli import main

sys.exit(main())
