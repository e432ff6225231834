"""One thread for linear algebra: small products gain nothing from more, and where cores are busy threads that wait for each other took
80 times as long (49 s against 0.6 s in test_opponent_protein.py, two cores at a load of 7, December 2026)."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when numpy is first imported
    os.environ.setdefault(name, "1")
