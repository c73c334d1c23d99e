"""Packages import one way: each only those of a lower layer, lazy and type-checking imports included."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "sct"
LAYERS = [
    {"errors", "limits", "_version"},
    {"storage"},
    {"regions", "language"},
    {"vision"},
    {"data"},
    {"decoding"},
    {"models"},
    {"sorting"},
    {"metrics"},
    {"captioner"},
    {"training", "evaluation"},
    {"reproduction"},
    {"drawing", "serving", "bulk"},
    {"cli"},
]
"""From bottom to top; packages of one layer do not import each other."""
FORBIDDEN = {
    "serving": {"evaluation", "training", "reproduction"},
    "drawing": {"evaluation", "training", "reproduction"},
}
"""The product does not depend on the paper's protocols, although they are in lower layers."""
LAYER = {package: number for number, layer in enumerate(LAYERS) for package in layer}
FILES = sorted(path for path in SRC.rglob("*.py") if path.parent != SRC)


def imported_packages(code: str) -> set[str]:
    """Packages of ``sct`` that a module imports, anywhere in it; "" is the root itself."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [
                f"{node.module}.{alias.name}" if node.module == "sct" else str(node.module) for alias in node.names
            ]
        else:
            continue
        found |= {name.partition(".")[2].partition(".")[0] for name in names if name.partition(".")[0] == "sct"}
    return found


def wrong_imports(package: str, code: str) -> set[str]:
    return {
        name
        for name in imported_packages(code) - {package}
        if name not in LAYER or LAYER[name] >= LAYER[package] or name in FORBIDDEN.get(package, ())
    }


def test_every_package_has_a_layer():
    assert {path.relative_to(SRC).parts[0] for path in FILES} == LAYER.keys() - {"errors", "limits", "_version"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_only_lower_layers(path):
    assert wrong_imports(path.relative_to(SRC).parts[0], path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("path", sorted((SRC / "regions").glob("*.py")), ids=lambda path: path.name)
def test_regions_need_no_torch(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "torch" not in {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        pytest.param("", set(), id="empty module"),
        pytest.param("from sct.data.table import Table", set(), id="lower layer"),
        pytest.param("from sct.models.config import Mode", set(), id="own package"),
        pytest.param("from sct.training.config import read", {"training"}, id="higher layer"),
        pytest.param("def f():\n    from sct.captioner.bundle import load", {"captioner"}, id="lazy import"),
        pytest.param("if TYPE_CHECKING:\n    import sct.serving.app", {"serving"}, id="type-checking import"),
        pytest.param("from sct import evaluation", {"evaluation"}, id="submodule of the root"),
        pytest.param("import sct", {""}, id="the root itself"),
    ],
)
def test_a_wrong_import_is_seen(code, wrong):
    assert wrong_imports("models", code) == wrong
