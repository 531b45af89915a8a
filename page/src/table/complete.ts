// Completions at a place in a filter: names, comparisons, values or connectives.
import { quoted, tokens, type Token } from "./filter.ts";

export interface Completion {
  /** The text that replaces that from `from` to `to`. */
  insert: string;
  label: string;
  hint: string;
  from: number;
  to: number;
  /** Whether it completes a word of which only a part is there. */
  partial: boolean;
}

export interface Names {
  names: { name: string; hint: string; values: () => readonly string[] }[];
}

const MOST = 12;

export function complete(text: string, cursor: number, known: Names): Completion[] {
  const before = text.slice(0, cursor);
  let list: Token[];
  try {
    list = tokens(before);
  } catch {
    return []; // Inside a quotation: everything can follow.
  }
  const last = list[list.length - 1];
  const touching = last !== undefined && last.to === cursor && (last.kind === "word" || last.kind === "quoted");
  const word = touching ? last.text : "";
  const from = touching ? last.from : cursor;
  const done = touching ? list.slice(0, -1) : list;
  const previous = done[done.length - 1];
  const make = (all: readonly string[]) => (insert: string, label: string, hint: string): Completion =>
    ({ insert, label, hint, from, to: cursor, partial: word !== "" && !all.includes(word) });
  if (previous?.kind === "operator") {
    const name = done[done.length - 2]?.text ?? "";
    const values = known.names.find((one) => one.name === name)?.values() ?? [];
    return pick(values, word).map((value) => make(values)(`${quoted(value)} `, value, ""));
  }
  const isName = known.names.some((one) => one.name === previous?.text);
  const wasValue = done[done.length - 2]?.kind === "operator";
  if (previous && (previous.kind === "word" || previous.kind === "quoted") && isName && !wasValue) {
    return word ? [] : ["=", "!=", "<", ">", "~"].map((sign) => make([])(`${sign} `, sign, OPERATOR_HINTS[sign] ?? ""));
  }
  if (wasValue || previous?.kind === ")") {
    return pick(CONNECTIVES, word).map((name) => make(CONNECTIVES)(`${name} `, name, ""));
  }
  const all = known.names.map((one) => one.name);
  return pick(all, word).map((name) => make(all)(`${quoted(name)} `, name, known.names.find((one) => one.name === name)?.hint ?? ""));
}

const CONNECTIVES = ["and", "or"];
const OPERATOR_HINTS: Record<string, string> = { "=": "is", "!=": "is not", "<": "less", ">": "more", "~": "contains" };

/** Those that begin with the word first, then those that contain it. */
function pick(all: readonly string[], word: string): string[] {
  const wanted = word.toLowerCase();
  const begin = all.filter((one) => one.toLowerCase().startsWith(wanted));
  const inside = all.filter((one) => !one.toLowerCase().startsWith(wanted) && one.toLowerCase().includes(wanted));
  return [...begin, ...inside].filter((one) => one !== word).slice(0, MOST);
}
