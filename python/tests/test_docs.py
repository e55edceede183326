"""The programs of the notebook, the README and the guide run."""

import ast
import collections.abc
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


def test_stubs_and_classes_have_the_same_names():
    stubs = ast.parse((PACKAGE / "lastword" / "__init__.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    inner = {"scan", "put_all", "start"}  # of the compiled half, for the classes themselves
    for kind in (
        lastword.Pool,
        lastword.View,
        lastword.Transaction,
        lastword.Ticket,
        lastword.Map,
        lastword.OrderedMap,
        lastword.Range,
    ):
        stub, bases = set(), [kind.__name__]
        while bases:
            node = classes.get(bases.pop())
            if node is not None:
                stub |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                bases += [ast.unparse(base).split("[")[0] for base in node.bases]
        stub = {name for name in stub if not name.startswith("_")}
        inherited = dir(collections.abc.MutableMapping) if issubclass(kind, lastword.Map) else []
        names = {name for name in dir(kind) if not name.startswith("_")}
        assert stub <= names, kind
        if kind is lastword.Map:
            inherited += ["first", "last"]  # refused without an order
        assert names - inner - set(inherited) == stub - set(inherited), kind
    text = (PACKAGE / "lastword" / "__init__.pyi").read_text()
    for name in lastword.__all__:
        assert re.search(rf"(class|def|as) {name}\b", text), name


def test_version_is_that_of_the_crate():
    manifest = (PACKAGE / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"', manifest, re.MULTILINE)[1] == lastword.__version__
