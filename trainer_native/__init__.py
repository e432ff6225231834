"""The native trainer: params and a seed become a Run. It knows no study and no database."""

from .environments import initial_state, transition
from .policy import Policy
from .trainer import Run, Solve, build_info, evaluate, network_size, train

__all__ = ["Policy", "Run", "Solve", "build_info", "evaluate", "initial_state", "make", "make_vec", "network_size", "train",
           "transition"]  # fmt: skip


def make_vec(env, num_envs=1, **options):
    """`num_envs` copies of an environment as a gymnasium.vector.VectorEnv: see vector_env.Copies for the options."""
    from .vector_env import Copies  # imports gymnasium

    return Copies(env, num_envs, **options)


def make(env, **options):
    """One environment as a gymnasium.Env: see vector_env.One for the options."""
    from .vector_env import One  # imports gymnasium

    return One(env, **options)
