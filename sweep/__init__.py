"""Finds the network and hyperparameters that solve an environment in the fewest seconds."""
