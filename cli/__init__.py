"""The operator's command line: the state of a stage, the plan of the next run, and the price."""
