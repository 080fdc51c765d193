"""tvmc as a script, for programs that call ``python SCRIPT compile ...``; ``vmkit tvmc --script`` says where it is.

It finds this vmkit, however it is called.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[4])

    from vmkit.cli.tvmc.main import main

    sys.exit(main())
