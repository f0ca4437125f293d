"""The lifecycle: what should exist, what does exist, what to change, and a report of what was done.

``premake`` says which periods need a table, ``ladder`` what capacity an age deserves, ``expiry`` when a table closes and
ends; ``plan`` turns these and an observation into actions, ``apply`` carries them out.
"""

from tidetable.lifecycle.reconcile import Reconciler, Report, reconcile

__all__ = ["Reconciler", "Report", "reconcile"]
