"""How messages travel between programs: gRPC over mutual TLS, frames, certificates.

Public: nothing.  Use `plait cert` and `plait doctor`.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # set before gRPC is loaded: our errors say what it would print
