"""The native trainer: params and a seed become a Run. It knows no study and no database."""

from .environments import initial_state, transition
from .trainer import Run, Solve, build_info, evaluate, network_size, train

__all__ = ["Run", "Solve", "build_info", "evaluate", "initial_state", "network_size", "train", "transition"]
