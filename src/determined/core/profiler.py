"""`ProfilerContext`: sample system metrics in a thread of one rank per machine and report averages."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from determined.core.supervision.supervisor import Supervisor

logger = logging.getLogger("determined.core")

Sample = dict[str, Any]
"""Group to (nested) names to values."""


class ProfilerContext:
    """Samples system metrics; off until `on()` is called."""

    def __init__(self, supervisor: Supervisor, *, agent_id: str, records: bool) -> None:
        self._supervisor = supervisor
        self._agent_id = agent_id
        self._records = records
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        """Sample every `sampling_interval` seconds, and report the averages of `samples_per_report` samples."""
        # `not >=` also rejects NaN.
        if not isinstance(sampling_interval, (int, float)) or not sampling_interval >= 0.1:
            raise ValueError(f"sampling_interval must be at least 0.1 seconds, got {sampling_interval!r}")
        if isinstance(samples_per_report, bool) or not isinstance(samples_per_report, int) or samples_per_report < 1:
            raise ValueError(f"samples_per_report must be a whole number from 1 on, got {samples_per_report!r}")
        if self._thread is not None or not self._records:
            return
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._run,
            args=(sampling_interval, samples_per_report),
            name="determined-profiler",
            # A daemon, so that a program that does not close its run can exit.
            daemon=True,
        )
        self._thread.start()

    def off(self) -> None:
        """Stop sampling; samples that do not fill a report are dropped."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _run(self, interval: float, samples_per_report: int) -> None:
        """Sample and report until `off` is called. Runs in the thread."""
        try:
            sampler = SystemSampler()
            samples: list[Sample] = []
            # Waits for the event instead of sleeping, so that `off` need not wait for the rest of an interval.
            while not self._stop.wait(interval):
                samples.append(sampler.sample())
                if len(samples) == samples_per_report:
                    for group, metrics in average(samples).items():
                        self._supervisor.report_metrics(group, None, {self._agent_id: metrics})
                    samples.clear()
        except Exception:
            # A failure to collect statistics must not end the training.
            logger.exception("the profiler stopped after an error")


class SystemSampler:
    """Reads counters of this machine; rates refer to the time since the previous sample."""

    def __init__(self) -> None:
        import psutil  # imported on use: only programs that profile need it

        self._psutil = psutil
        self._process = psutil.Process(os.getpid())
        self._rates: dict[str, tuple[float, float]] = {}
        self._nvml, self._gpus = _open_nvml()
        psutil.cpu_percent()  # the first call returns 0 and starts the measurement
        self.sample()  # the first sample has no rates and only initializes them

    def sample(self) -> Sample:
        """Return the current values, grouped by cpu, memory, disk, network and gpu."""
        psutil = self._psutil
        sample: Sample = {
            "cpu": {"cpu_util_simple": psutil.cpu_percent()},
            "memory": {
                "memory_free": psutil.virtual_memory().available,
                "memory_process": self._process.memory_info().rss,
            },
            "disk": self._disk(),
            "network": self._network(),
        }
        if self._gpus:
            sample["gpu"] = {uuid: self._gpu(handle) for uuid, handle in self._gpus.items()}
        return sample

    def _disk(self) -> Sample:
        """Return the use of the root file system and the rates of all disks."""
        disk: Sample = {"/": {"disk_util": self._psutil.disk_usage("/").percent}}
        counters = self._psutil.disk_io_counters()
        if counters is not None:  # not available in some containers
            disk["disk_iops"] = self._rate("iops", counters.read_count + counters.write_count)
            disk["disk_throughput_read"] = self._rate("read", counters.read_bytes)
            disk["disk_throughput_write"] = self._rate("write", counters.write_bytes)
        return disk

    def _network(self) -> Sample:
        """Return the rates of all network interfaces; empty if the system does not count them."""
        counters = self._psutil.net_io_counters()
        if counters is None:
            return {}
        return {
            "net_throughput_sent": self._rate("sent", counters.bytes_sent),
            "net_throughput_recv": self._rate("recv", counters.bytes_recv),
        }

    def _gpu(self, handle: Any) -> Sample:
        """Return the use and the memory of a GPU."""
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "gpu_util": self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "gpu_free_memory": memory.free,
            "gpu_used_memory": memory.used,
        }

    def _rate(self, name: str, count: float) -> float:
        """Return the change of a counter per second since the previous call."""
        now = time.monotonic()
        before, earlier = self._rates.get(name, (count, now))
        self._rates[name] = (count, now)
        # Two samples in the same tick of the clock would otherwise divide by zero.
        return (count - before) / (now - earlier) if now > earlier else 0.0


def average(samples: list[Sample]) -> Sample:
    """Return the mean of each value over the samples, in the structure of the last one."""
    return {
        # A value can be missing in some samples: a counter or a device may disappear.
        name: average([sample[name] for sample in samples if name in sample])
        if isinstance(value, dict)
        else sum(sample[name] for sample in samples if name in sample) / sum(name in s for s in samples)
        for name, value in samples[-1].items()
    }


def _open_nvml() -> tuple[Any, dict[str, Any]]:
    """Return the NVML module and the devices by UUID; no devices if the module or the driver is missing."""
    try:
        # Optional: on machines without an NVIDIA GPU it is not installed.
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        logger.warning("no GPU metrics: the package nvidia-ml-py is not installed")
        return None, {}
    try:
        pynvml.nvmlInit()
        handles: list[Any] = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        logger.info("no GPU metrics: %s", error)
        return None, {}
    name: Callable[[Any], Any] = pynvml.nvmlDeviceGetUUID
    return pynvml, {_text(name(handle)): handle for handle in handles}


def _text(value: str | bytes) -> str:
    """Return a UUID as a text: older versions of the package return bytes."""
    return value.decode() if isinstance(value, bytes) else value
