"""What every test shares: the folder of this file goes on the import path, so that tests can import `oracle`."""

from hypothesis import settings

settings.register_profile("plait", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("plait")
