"""How messages travel between programs: gRPC over mutual TLS, frames, certificates.

Public: nothing.  Use `plait cert` and `plait doctor`.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # before gRPC is loaded: what it would print, our errors say
