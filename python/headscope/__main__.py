"""python -m headscope is the headscope command."""

import sys

from headscope.cli import main

sys.exit(main())
