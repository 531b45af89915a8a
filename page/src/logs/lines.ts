// The lines of a log that are shown, and how answers change them.
import type { LogLine, LogLines } from "../../generated/types.ts";

/** The number of lines in one request. */
export const LIMIT = 500;
/** The maximum number of lines that are kept. */
export const KEPT = 5000;

export interface Loaded {
  lines: LogLine[];
  older: boolean;
  /** Whether the newest lines are missing. */
  newer: boolean;
  /** The part of the log that a pattern was searched in; null without a pattern. */
  searched: LogLines["searched"];
}

export function opened(answer: LogLines, newer = answer.newer): Loaded {
  return { lines: answer.lines, older: answer.older, newer, searched: answer.searched };
}

/** The id before which older lines are to be requested: a search goes on where it stopped, also without a match. */
export function firstId({ lines, searched }: Loaded): number | null {
  return searched?.first.id ?? lines[0]?.id ?? null;
}

/** The id after which newer lines are to be requested. */
export function lastId({ lines, searched }: Pick<Loaded, "lines" | "searched">): number | null {
  return searched?.last.id ?? lines[lines.length - 1]?.id ?? null;
}

/** The time back to which a pattern was searched, where the search stopped before the first line of the log; else null. */
export function stoppedAt({ lines, older, searched }: Loaded): number | null {
  return older && searched && searched.first.id !== lines[0]?.id ? searched.first.time : null;
}

/** The stream that a line belongs to: the next line of the stream replaces the state of a progress bar. */
function streamOf(line: LogLine): string {
  return `${line.trial} ${line.attempt} ${line.rank} ${line.stream}`;
}

export function mergeAfter(before: Loaded, answer: LogLines): Loaded {
  const known = new Set(before.lines.map((line) => line.id));
  const added = answer.lines.filter((line) => !known.has(line.id));
  const searched = before.searched && answer.searched ? { first: before.searched.first, last: answer.searched.last } : before.searched ?? answer.searched;
  if (added.length === 0 && searched === before.searched && before.newer === answer.newer) return before;
  const streams = new Set(added.map(streamOf));
  const lines = [...before.lines.filter((line) => line.finished || !streams.has(streamOf(line))), ...added];
  const kept = lines.slice(-KEPT);
  return {
    lines: kept, older: before.older || lines.length > KEPT, newer: answer.newer,
    searched: searched && lines.length > KEPT ? { first: placeOf(kept[0]!), last: searched.last } : searched,
  };
}

export function mergeBefore(before: Loaded, answer: LogLines): Loaded {
  const known = new Set(before.lines.map((line) => line.id));
  const lines = [...answer.lines.filter((line) => !known.has(line.id)), ...before.lines];
  const kept = lines.slice(0, KEPT);
  const searched = before.searched && answer.searched ? { first: answer.searched.first, last: before.searched.last } : before.searched ?? answer.searched;
  return {
    lines: kept, older: answer.older, newer: before.newer || lines.length > KEPT,
    searched: searched && lines.length > KEPT ? { first: searched.first, last: placeOf(kept[kept.length - 1]!) } : searched,
  };
}

function placeOf(line: LogLine): { id: number; time: number } {
  return { id: line.id, time: line.time };
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
    after = lastId(answer);
  }
  const newest = await ask(null);
  show(() => opened(newest, false));
}
