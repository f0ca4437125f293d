"""The command line of an operator: what there is, what will be done, what it costs."""
