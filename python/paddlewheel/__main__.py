"""`python -m paddlewheel` is the command `paddlewheel`."""

import sys

from paddlewheel._cli import main

sys.exit(main())
