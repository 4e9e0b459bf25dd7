"""Episodes on disk: made in parallel, stored as Lance rows, read back by episode or by window."""

import warnings

# Lance warns whenever a process that has it open starts any other program. Workers are never forked: they are spawned.
warnings.filterwarnings("ignore", message="lance is not fork-safe")
