"""The programs of the README run."""

import re
from pathlib import Path

import numpy as np


def test_the_programs_run():
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) >= 2
    names = {}
    for program in programs:
        exec(compile(program, "README.md", "exec"), names)  # noqa: S102
    assert np.abs(names["a"] @ names["x"] - names["b"]).max() < 1e-8
    # Of u'' = exp(u): negative, symmetric about the middle.
    u = names["u"]
    assert -0.12 < u.min() < -0.11 and np.abs(u - u[::-1]).max() < 1e-10


def test_all_that_is_public_is_documented():
    import luge

    for name in luge.__all__:
        value = getattr(luge, name)
        if name != "__version__":
            assert value.__doc__, name
        for member, of_class in vars(value).items() if isinstance(value, type) else ():
            if not member.startswith("_") and (callable(of_class) or isinstance(of_class, property)):
                assert of_class.__doc__, f"{name}.{member}"
