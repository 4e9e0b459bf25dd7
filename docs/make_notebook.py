"""Run the notebook from a fresh kernel and keep what it shows: `python docs/make_notebook.py`, about three minutes.

Its text and code are written in docs/notebook.ipynb itself, by hand or in Jupyter. What it writes goes to a folder that is
deleted. Progress is not kept: its seconds are of the machine that ran it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parent / "notebook.ipynb"
PARAMETERS = "parameters"  # the tag of the cell whose values can be replaced


def executed(folder: Path, parameters: Mapping[str, int] | None = None) -> NotebookNode:
    """The notebook with its outputs, run cell by cell in that folder; a cell that fails is an error that shows it.

    parameters: set after the cell that is tagged `parameters`, such as {"UPDATES": 2}.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if parameters and PARAMETERS in cell.metadata.get("tags", ()):
            cells.append(nbformat.v4.new_code_cell("\n".join(f"{name} = {value}" for name, value in parameters.items())))
    notebook.cells = cells
    client = NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook


def tidied(notebook: NotebookNode) -> NotebookNode:
    """Without progress, times of cells and the name of the kernel's version, which differ from run to run."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    return notebook


def main() -> None:
    """Run all of it and write it back."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = tidied(executed(Path(folder)))
    nbformat.write(notebook, NOTEBOOK)
    print(f"written to {NOTEBOOK}, {NOTEBOOK.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
