"""The lifecycle makes, changes, archives and deletes the tables of periods, and reports its actions.

``premake`` decides which periods need a table. The rules that archives and the bill share are beside this folder:
``ladder`` decides which capacity a table gets at an age, ``expiry`` when a table closes and expires. ``plan`` turns
these rules and an observation into actions; ``apply`` carries the actions out.
"""

from tidetable.lifecycle.reconcile import reconcile
from tidetable.lifecycle.report import RunReport
from tidetable.upkeep.run import LifecycleRun

__all__ = ["RunReport", "LifecycleRun", "reconcile"]
