// The lines of a log that are shown, and how answers change them.
import type { LogLine, LogLines } from "../types.ts";

/** The number of lines in one request. */
export const LIMIT = 500;
/** The maximum number of lines that are kept. */
export const KEPT = 5000;

export interface Loaded {
  lines: LogLine[];
  older: boolean;
  /** Whether the newest lines are missing. */
  newer: boolean;
}

/** The stream that a line belongs to: the next line of the stream replaces the state of a progress bar. */
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
 * Requests the lines after an id until there are no newer ones. If there are more lines than are kept, it shows only the
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
