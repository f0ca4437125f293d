"""Large values: an event whose data is too large or costly for an item is shrunk, and completed when it is read."""
