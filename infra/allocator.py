"""What the functions that callers wait for tell the C library about memory.

By itself it gives large blocks back to the kernel when they are freed, and gets them anew for the next request: a page of 10,000
events then takes 2,700 page faults, up to half of its CPU time (docs/inside/performance.md). A function answers one request at a
time, so what it keeps nobody else wants.
"""

from __future__ import annotations

# glibc, mallopt(3): 32 MB is the largest threshold that it takes.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024), "MALLOC_TRIM_THRESHOLD_": str(128 * 1024 * 1024)}
