"""Large values: packing an event that does not fit its item, or should not, and completing it again."""
