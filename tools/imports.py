"""
Import every module of the package, every name of others that its functions import, and modules of extras.

``make test-lowest`` runs this with the lowest versions of all dependencies, in which a name may be missing
that newer versions have. Prints what cannot be imported, and then ends with 1.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import airflow_provider_workflow as package

NEEDS = {
    "airflow.sdk.AssetTriggeredTimetable": "Airflow 3.4",
    "airflow.triggers.shared_stream": "Airflow 3.3",
    "pytest": "pytest, which loads the plugin",
}
"""Modules and names that may be missing, and what brings them."""
OF_EXTRAS = {"s3": ("airflow.providers.amazon.aws.fs.s3", "s3fs")}
"""Modules that only Airflow imports, for the package: by the extra that installs them."""


def main() -> int:
    """Import everything; return the exit code."""
    root = Path(package.__file__).parent
    count, faults = 0, []
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        imports = imports_of(ast.parse(path.read_text()))
        names = [
            (module, None),
            *(other_name for other_name in imports if not other_name[0].startswith(package.__name__)),
        ]
        for name, attribute in names:
            count += 1
            if (fault := fault_of(name, attribute)) is not None:
                faults.append(f"{module}: {name} {attribute or ''}: {fault}")
    for extra, modules in OF_EXTRAS.items():
        for name in modules:
            count += 1
            if (fault := fault_of(name, None)) is not None:
                faults.append(f"extra {extra}: {name}: {fault}")
    print(*faults, f"{count} imports of the package, {len(faults)} failed.", sep="\n")
    return 1 if faults else 0


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """The modules and names that a module imports when it runs, also in its functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports_of(ast.Module(node.orelse, []))
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)
        else:
            yield from imports_of(node)


def fault_of(module: str, attribute: str | None) -> str | None:
    """Import a module, and a name of it; return why that fails."""
    try:
        module_object = importlib.import_module(module)
        if attribute is not None and not hasattr(module_object, attribute):
            importlib.import_module(f"{module}.{attribute}")
    except Exception as error:
        missing = getattr(error, "name", None)
        return None if missing in NEEDS else f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
