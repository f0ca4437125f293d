"""End the local stage, for `make stop`."""

from local.keep import end_remembered_stage

if __name__ == "__main__":
    print("stopped" if end_remembered_stage() else "no stage was running")
