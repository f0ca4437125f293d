"""End the local stage, for `make stop`."""

from local.keep import stop

if __name__ == "__main__":
    print("stopped" if stop() else "no stage was running")
