"""What stands in the database: tables, columns and views, for `store` and for people who query it.

Open it with any SQLite tool (`sqlite3 sweep.db`, `datasette sweep.db`); reading never disturbs a study that runs.

| table | one row is | columns worth knowing |
|---|---|---|
| `studies` | one question | `name`, `hash` of its `definition` (JSON), `opened`: a name means its newest |
| `invocations` | one `sweep run` | `machine`, `build`, `totals` (JSON), `started`, `ended` (NULL: runs or killed) |
| `trials` | one setting of the hyperparameters | `number`, `params` (JSON), `parameters` (network size), `origin` |
| `runs` | one training run | `trial_id`, `seed`, `purpose`, `attempt`, `status`, `seconds`, `env_steps` |
| `curves` | a run's learning curve | `curve`: JSON, a list of [cpu_seconds, seconds, env_steps, mean_return] (mean metric where that is solved on) |
| `audits` | a solved run's policy, evaluated again off the clock | `run_id`, `episodes`, `mean_return`, `solved` |

| view | one row is |
|---|---|
| `run_times` | a run that counts, with its study, trial, params, `env_steps_per_second` and `wall_over_cpu` |
| `trial_times` | a trial and purpose: how its runs ended; fastest, mean and slowest seconds of those that solved |
| `trial_params` | a trial and one hyperparameter: `name`, `value` |
| `curve_points` | a run and one point of its curve |

Times are seconds on the run's clock, which starts at its first env step; `cpu_seconds` are those of its thread.
Instants are UTC, ISO 8601. NULL means absent; a number that is not finite is stored as NULL. `runs.audit` is 1 for a
run that went uncapped to see what caps kill, `runs.noisy` for a wall time that its CPU time belies. A seed that is run
again (with a longer cap, or because the machine was noisy) is a new row with the next `attempt`: of rows with the same
trial, seed and purpose the last attempt counts.
"""

#: PRAGMA user_version of a database this code reads and writes.
SCHEMA = 2
#: The oldest that it reads, and what a version adds to the one before it: table -> columns, at its end.
OLDEST = 1
ADDED: dict[int, dict[str, dict[str, type]]] = {2: {"runs": {"mean_metric": float, "best_metric": float}, "audits": {"mean_metric": float}}}
#: PRAGMA application_id: says that a SQLite file is ours ("swep").
APPLICATION = 0x73776570

STATUSES = ("solved", "censored", "diverged", "crashed")
STATES = ("open", "ended")

#: What is stored of a trainer_native.Run, by its own names.
RUN_FIELDS = {
    "seed": int, "status": str, "reason": str, "parameters": int, "seconds": float, "cpu_seconds": float,
    "setup_seconds": float, "env_steps": int, "iterations": int, "rollout_seconds": float, "update_seconds": float,
    "evaluation_seconds": float, "trigger_seconds": float, "trigger_env_steps": int, "evaluations": int,
    "mean_return": float, "best_return": float, "mean_metric": float, "best_metric": float,
}  # fmt: skip

TABLES: dict[str, dict[str, type]] = {
    "studies": {"id": int, "name": str, "hash": str, "env": str, "question": str, "definition": str, "budget": str,
                "sampler": str, "created": str, "opened": str},
    "invocations": {"id": int, "study_id": int, "started": str, "ended": str, "command": str, "workers": int,
                    "machine": str, "build": str, "totals": str},
    "trials": {"id": int, "study_id": int, "number": int, "params": str, "parameters": int, "origin": str,
               "state": str, "value": float, "created": str},
    "runs": {"id": int, "trial_id": int, "invocation_id": int, "purpose": str, "attempt": int, "audit": int,
             "noisy": int, "cap_seconds": float, "worker": str, "started": str, **RUN_FIELDS},
    "curves": {"run_id": int, "points": int, "curve": str},
    "audits": {"id": int, "trial_id": int, "run_id": int, "mean_return": float, "episodes": int, "solved": int,
               "created": str, "mean_metric": float},
}  # fmt: skip
PARENTS = {"study_id": "studies", "trial_id": "trials", "invocation_id": "invocations", "run_id": "runs"}
NOT_NULL = {"name", "hash", "definition", "study_id", "number", "params", "state", "trial_id", "purpose", "attempt",
            "seed", "status", "curve"}  # fmt: skip
UNIQUE = {"studies": ["name", "hash"], "trials": ["study_id", "number"], "audits": ["run_id"],
          "runs": ["trial_id", "seed", "purpose", "attempt"]}  # fmt: skip

#: SQL: true for a row of `runs` that no later attempt supersedes.
COUNTS = """NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.trial_id = runs.trial_id AND later.seed = runs.seed
    AND later.purpose = runs.purpose AND later.attempt > runs.attempt)"""

VIEWS = {
    "run_times": f"""SELECT studies.name AS study, trials.study_id, trials.number AS trial, runs.*,
        runs.env_steps / runs.seconds AS env_steps_per_second, runs.seconds / runs.cpu_seconds AS wall_over_cpu,
        trials.params FROM runs JOIN trials ON trials.id = runs.trial_id
        JOIN studies ON studies.id = trials.study_id WHERE {COUNTS}""",
    "trial_times": """SELECT study, study_id, trial, trial_id, parameters, purpose, count(*) AS runs,
        sum(status = 'solved') AS solved, sum(status = 'censored') AS censored, sum(status = 'diverged') AS diverged,
        sum(status = 'crashed') AS crashed, min(CASE WHEN status = 'solved' THEN seconds END) AS fastest_seconds,
        avg(CASE WHEN status = 'solved' THEN seconds END) AS mean_seconds,
        max(CASE WHEN status = 'solved' THEN seconds END) AS slowest_seconds, params
        FROM run_times GROUP BY trial_id, purpose""",
    "trial_params": """SELECT studies.name AS study, trials.study_id, trials.number AS trial, trials.id AS trial_id,
        param.key AS name, param.atom AS value
        FROM trials JOIN studies ON studies.id = trials.study_id, json_each(trials.params) AS param""",
    "curve_points": """SELECT run_id, point.key AS point, json_extract(point.value, '$[0]') AS cpu_seconds,
        json_extract(point.value, '$[1]') AS seconds, json_extract(point.value, '$[2]') AS env_steps,
        json_extract(point.value, '$[3]') AS mean_return FROM curves, json_each(curves.curve) AS point""",
}
