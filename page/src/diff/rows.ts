// A difference in the unified format as rows of two columns.

/** One side of a row: the number of the line, its text, and which part of the text the other side of a changed line does not have. */
export interface Side {
  number: number;
  text: string;
  changed: readonly [number, number];
}

/** Lines that belong together: both sides of an unchanged or changed line, one side of an added or removed one. */
export interface DiffRow {
  left: Side | null;
  right: Side | null;
  same: boolean;
}

/** Consecutive rows, with unchanged lines around each change; other unchanged lines are left out between hunks. */
export type Hunk = readonly DiffRow[];

/** The hunks of a difference. The note is a remark instead of a difference, or says that the rest is left out. */
export interface ParsedDiff {
  hunks: readonly Hunk[];
  note: string | null;
}

export function parseDiff(text: string): ParsedDiff {
  const hunks: DiffRow[][] = [];
  let [left, right] = [0, 0];
  let removed: Side[] = [];
  let added: Side[] = [];
  const close = (): void => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) hunks[hunks.length - 1]!.push(changedRow(removed[at] ?? null, added[at] ?? null));
    removed = [];
    added = [];
  };
  const note: string[] = [];
  for (const line of text.split("\n")) {
    const start = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    const rest = line.slice(1);
    if (start) {
      close();
      hunks.push([]);
      [left, right] = [Number(start[1]), Number(start[2])];
    } else if (hunks.length === 0) {
      if (!line.startsWith("---") && !line.startsWith("+++")) note.push(line); // These name the file, which a heading does.
    } else if (line.startsWith("-")) {
      if (added.length > 0) close();
      removed.push({ number: left++, text: rest, changed: [0, 0] });
    } else if (line.startsWith("+")) added.push({ number: right++, text: rest, changed: [0, 0] });
    else if (line.startsWith(" ")) {
      close();
      hunks[hunks.length - 1]!.push({ left: { number: left++, text: rest, changed: [0, 0] }, right: { number: right++, text: rest, changed: [0, 0] }, same: true });
    } else if (line !== "") note.push("The rest of the difference is left out.");
  }
  if (hunks.length > 0) close();
  return { hunks, note: note.join("\n") || null };
}

/** Marks what differs between two lines: what remains without their common start and end. */
function changedRow(left: Side | null, right: Side | null): DiffRow {
  if (!left || !right) return { left, right, same: false };
  const shorter = Math.min(left.text.length, right.text.length);
  let start = 0;
  while (start < shorter && left.text[start] === right.text[start]) start++;
  let end = 0;
  while (end < shorter - start && left.text[left.text.length - 1 - end] === right.text[right.text.length - 1 - end]) end++;
  // A mark must not cut a character that consists of two code units.
  if (isHigh(left.text, start - 1) || isHigh(right.text, start - 1)) start--;
  if (end > 0 && isHigh(left.text, left.text.length - end - 1)) end--;
  const side = (one: Side): Side => ({ ...one, changed: [start, one.text.length - end] });
  return { left: side(left), right: side(right), same: false };
}

function isHigh(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code < 0xdc00;
}
