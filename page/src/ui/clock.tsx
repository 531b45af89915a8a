// Times that go on while somebody looks: durations of what has not ended, and how long ago something was.
import { useEffect, useState } from "preact/hooks";
import { exported } from "../api.ts";
import { formatAgo, formatDuration, formatTime } from "../format.ts";

interface Timed {
  started?: number | null;
  created?: number | null;
  ended: number | null;
}

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** The present time in seconds; an exported page stays at the time of its export. */
function now(): number {
  return exported?.created ?? Date.now() / 1000;
}

export function duration(row: Timed): number | null {
  const start = row.started ?? row.created ?? null;
  return start === null ? null : (row.ended ?? now()) - start;
}

function tick(): void {
  if (!document.hidden) for (const listener of [...listeners]) listener();
}

/** A text that depends on the time: looked at each second, drawn again when it differs. */
function useText(text: () => string, moves: boolean): string {
  const [, setShown] = useState("");
  useEffect(() => {
    if (!moves || exported) return undefined;
    const look = (): void => setShown(text());
    listeners.add(look);
    timer ??= setInterval(tick, 1000);
    return () => {
      listeners.delete(look);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  });
  return text();
}

export function Duration({ row }: { row: Timed }) {
  return <>{useText(() => formatDuration(duration(row)), row.ended === null)}</>;
}

export function Ago({ time }: { time: number | null }) {
  return <span title={formatTime(time, true)}>{useText(() => formatAgo(time, now()), time !== null)}</span>;
}
