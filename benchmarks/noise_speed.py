"""Samples of discrete Gaussian noise per CPU second: python benchmarks/noise_speed.py"""

import json
import platform
import time

from plait.privacy.noise import InsecureTestNoise, Release, discrete_gaussian

COUNT = 1_000_000

if __name__ == "__main__":
    stream = InsecureTestNoise(0).stream(Release("bench", "party", 0, "speed", ""))
    speeds = {}
    for scale in (3, 1000, 2**21, 2**25 + 12345):
        start = time.process_time()
        discrete_gaussian(scale, COUNT, stream)
        speeds[scale] = round(COUNT / (time.process_time() - start))
    print(json.dumps({"samples": COUNT, "machine": platform.processor(), "samples per CPU second": speeds}))
