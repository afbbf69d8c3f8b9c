"""A pipe command that hands on its lines, a file's within half a second, or at once when there is a file `hurry`."""

import os
import sys
import time

lines = sys.stdin.readlines()
for line in lines:
    sys.stdout.write(line.rstrip(" \n") + "\n")
    sys.stdout.flush()
    if not os.path.exists("hurry"):
        time.sleep(0.5 / len(lines))
