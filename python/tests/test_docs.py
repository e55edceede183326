"""The programs of the notebook, the README and the guide run."""

import ast
import json
import os
import pathlib
import re
import sys
import types

import pytest

import lastword

PACKAGE = pathlib.Path(__file__).parent.parent
GUIDE = PACKAGE.parent / "docs" / "guide" / "python.md"


@pytest.fixture(autouse=True)
def folder(tmp_path):
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


def programs(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_notebook_runs(capsys, monkeypatch):
    notebook = json.loads((PACKAGE / "examples" / "quickstart.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    module = types.ModuleType("notebook")  # its dataclasses look for their module
    monkeypatch.setitem(sys.modules, "notebook", module)
    for cell in cells:
        assert cell["outputs"] == []
        exec("".join(cell["source"]), module.__dict__)
    printed = capsys.readouterr().out
    assert "not HashMap<str, json>" in printed
    # The order of a map is that of hashes, which differ from pool to pool.
    assert ast.literal_eval(printed.splitlines()[-1]) == {"apple": 86, "pear": 15}


def test_readme_runs():
    (program,) = programs(PACKAGE / "README.md")
    exec(program, {})


def test_guide_runs():
    found = programs(GUIDE)
    assert len(found) >= 5
    names = {"__name__": "guide"}
    for program in found:
        exec(program, names)


def test_stubs_have_every_public_name():
    stubs = (PACKAGE / "lastword" / "__init__.pyi").read_text()
    for name in lastword.__all__:
        assert re.search(rf"\b{name}\b", stubs), name
    for kind in (lastword.Pool, lastword.View, lastword.Transaction, lastword.Ticket):
        for name in dir(kind):
            if not name.startswith("_") and name != "start":
                assert re.search(rf"def {name}\(", stubs), f"{kind.__name__}.{name}"
