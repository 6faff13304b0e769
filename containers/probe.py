"""Ask the program's own page whether it lives (/health) or whether all parties are connected (/ready).

probe.py PATH [PORT]
"""

import sys
import urllib.error
import urllib.request

path = sys.argv[1] if len(sys.argv) > 1 else "/health"
port = sys.argv[2] if len(sys.argv) > 2 else "8081"
try:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=3) as answer:
        sys.exit(0 if answer.status == 200 else 1)
except (urllib.error.URLError, OSError):
    sys.exit(1)
