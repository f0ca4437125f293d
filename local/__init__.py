"""The local stage: the same stack as in AWS, deployed into an emulator on this machine."""

from local.emulator import ENGINES, Emulator, Engine
from local.stack import Deployed, deploy

__all__ = ["ENGINES", "Deployed", "Emulator", "Engine", "deploy"]
