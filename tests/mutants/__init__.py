"""Mutations of the code, sampled by program: `make mutate SEED=7 PATHS=lambdas/tidetable/query`."""
