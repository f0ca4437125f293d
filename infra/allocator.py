"""Settings of the C library's memory allocator, for the functions for which callers wait.

By default the C library returns large blocks to the kernel when they are freed, and asks for them again at the next
request. So a page of 10,000 events takes 2,700 page faults, up to half of its CPU time (docs/inside/performance.md). A
function answers one request at a time, so no other process needs the memory that the function keeps.
"""

from __future__ import annotations

# glibc, mallopt(3): 32 MB is the largest threshold that it accepts.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024), "MALLOC_TRIM_THRESHOLD_": str(128 * 1024 * 1024)}
