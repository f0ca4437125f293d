"""Background work as items: each has a record, whose claim lets one worker at a time work on it."""
