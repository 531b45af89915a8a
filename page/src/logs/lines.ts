// The lines of a log that are shown, and how answers change them.
import type { LogLine, LogLines } from "../types.ts";

/** So many lines are asked for at a time. */
export const LIMIT = 500;
/** So many lines are kept. */
export const KEPT = 5000;

export interface Loaded {
  lines: LogLine[];
  older: boolean;
  /** Whether the newest lines are missing. */
  newer: boolean;
}

/** What writes a line: the state of a progress bar is replaced by the next line of the same stream. */
function streamOf(line: LogLine): string {
  return `${line.trial} ${line.attempt} ${line.rank} ${line.stream}`;
}

export function mergeAfter(before: Loaded, answer: LogLines): Loaded {
  const known = new Set(before.lines.map((line) => line.id));
  const added = answer.lines.filter((line) => !known.has(line.id));
  if (added.length === 0) return before.newer ? { ...before, newer: false } : before;
  const newer = new Set(added.map(streamOf));
  const lines = [...before.lines.filter((line) => line.finished || !newer.has(streamOf(line))), ...added];
  return { lines: lines.slice(-KEPT), older: before.older || lines.length > KEPT, newer: false };
}

export function mergeBefore(before: Loaded, answer: LogLines): Loaded {
  const known = new Set(before.lines.map((line) => line.id));
  const lines = [...answer.lines.filter((line) => !known.has(line.id)), ...before.lines];
  return { lines: lines.slice(0, KEPT), older: answer.older, newer: before.newer || lines.length > KEPT };
}

/**
 * Asks for the lines after an id until there are no newer ones. Where more came than are kept, it goes on with the
 * newest ones, as if the log had just been opened.
 */
export async function follow(last: number | null, ask: (after: number | null) => Promise<LogLines>,
                             show: (merge: (before: Loaded) => Loaded) => void): Promise<void> {
  let after = last;
  for (let page = 0; after !== null && page < KEPT / LIMIT; page++) {
    const answer = await ask(after);
    show((before) => mergeAfter(before, answer));
    if (!answer.newer) return;
    after = answer.lines[answer.lines.length - 1]?.id ?? null;
  }
  const { lines, older } = await ask(null);
  show(() => ({ lines, older, newer: false }));
}
