"""What the wheel holds is enough, without the source tree beside it."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import trainer_native._core

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"


@pytest.mark.skipif(not PROJECT.is_file(), reason="not in a source tree")
def test_the_layout_of_the_wheel_works_anywhere(tmp_path):
    site = tmp_path / "site"
    packages = tomllib.loads(PROJECT.read_text())["tool"]["scikit-build"]["wheel"]["packages"]
    for target, source in packages.items():
        shutil.copytree(ROOT / source, site / target, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    shutil.copy(trainer_native._core.__file__, site / "trainer_native")
    # An editable install answers imports before any path does; -S leaves it out, and the dependencies come by path.
    paths = [str(site), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    code = ("import sys; from sweep import study, tomlfiles, cli; import trainer_native.environments as e; "
            "assert cli.__file__.startswith(sys.argv[1]), cli.__file__; "
            "[study.load(n) for n in tomlfiles.names('studies')]; assert tomlfiles.names('spaces'); assert e.names(); "
            "assert next(tomlfiles.folder('reports').glob('*.html')); "
            "print(trainer_native.build_info()['isa'], e.names())")
    done = subprocess.run([sys.executable, "-P", "-S", "-c", "import trainer_native; " + code, str(site)], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "breakout" in done.stdout and "cartpole" in done.stdout
