"""Notebooks with a real kernel, driven by nbclient: one kernel runs any number of cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.helpers import leaks, records


class Notebook:
    """A notebook with a running kernel."""

    def __init__(self, client: NotebookClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self.data = Path()

    @property
    def content(self) -> nbformat.NotebookNode:
        """The cells so far, as they are written to a file."""
        return self._client.nb

    def interrupt(self) -> None:
        async def interrupt() -> None:
            await self._manager().interrupt_kernel()

        asyncio.run(interrupt())

    def run(self, code: str) -> Cell:
        """Run a cell to its end."""
        cells = self._client.nb.cells
        cells.append(nbformat.v4.new_code_cell(code))
        running = self._client.async_execute_cell(cells[-1], len(cells) - 1)
        return Cell(self._loop.run_until_complete(running))

    def run_and(self, code: str, meanwhile: Callable[[], None]) -> Cell:
        """Run a cell, and call a function while it runs."""
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(meanwhile)
            cell = self.run(code)
            doing.result(timeout=60)
        return cell

    def start(self, code: str) -> None:
        """Start a cell without waiting for it."""
        assert self._client.kc is not None
        self._client.kc.execute(code)

    def restart(self) -> None:
        with leaks.shared():  # the kernel is shared by several tests
            self._loop.run_until_complete(self._manager().restart_kernel())
        assert isinstance(self._client.kc, AsyncKernelClient)
        self._loop.run_until_complete(self._client.kc.wait_for_ready(timeout=60))

    def _manager(self) -> AsyncKernelManager:
        assert isinstance(self._client.km, AsyncKernelManager)
        return self._client.km

    def state_of_runs(self) -> list[tuple[int, str]]:
        """Return experiment and state of each run, the oldest first."""
        with records.opened(self.data) as store:
            return [(run.experiment_id, run.attempt.state) for run in store.runs()[::-1]]


class Cell:
    """The output of a cell."""

    def __init__(self, cell: Any) -> None:
        self.outputs = cell.outputs

    @property
    def text(self) -> str:
        return "".join(output.get("text", "") for output in self.outputs)

    @property
    def error(self) -> str:
        return "".join(f"{output.ename}: {output.evalue}" for output in self.outputs if output.output_type == "error")

    def shown(self, kind: str) -> list[str]:
        return [output.data[kind] for output in self.outputs if kind in output.get("data", {})]


@contextmanager
def started(place: Path) -> Iterator[Notebook]:
    """Start a kernel in a directory, and end it after the block."""
    client = NotebookClient(nbformat.v4.new_notebook(), allow_errors=True, resources={"metadata": {"path": str(place)}})
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        kernel = client.async_setup_kernel()
        loop.run_until_complete(kernel.__aenter__())
        try:
            yield Notebook(client, loop)
        finally:
            loop.run_until_complete(kernel.__aexit__(None, None, None))
