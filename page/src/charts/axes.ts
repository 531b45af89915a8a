// The axes of charts of hyperparameters: a scale of numbers (linear or logarithmic) or of names.
import { formatNumber, formatValue, numberOf, toNumber } from "../format.ts";
import type { Searched, TrialRow } from "../../generated/types.ts";
import { categories, scale } from "./scales.ts";

export interface Axis {
  name: string;
  title: string;
  kind: "number" | "names";
  /** How many places an axis of names or of few integers has. */
  steps: number | null;
  log: boolean;
  /** The place of a trial on the axis, from 0 to 1; null where it has no value that can be placed. */
  place: (row: TrialRow) => number | null;
  text: (row: TrialRow) => string;
  /** The value of a trial for a CSV file, not rounded. */
  value: (row: TrialRow) => string | number | null;
  /** The value at a place of an axis of numbers. */
  at: ((place: number) => number) | null;
  ticks: { place: number; text: string }[];
}

export const METRIC_AXIS = "metric";
/** At most this many integers get a place each, for example in a heat map. */
const FEW = 16;

function raw(row: TrialRow, name: string): unknown {
  return row.hparams[name];
}

/** The axis of a hyperparameter; its scale is that of the search space, or follows from the values. */
export function hparamAxis(name: string, rows: readonly TrialRow[], searched: Searched | undefined): Axis {
  const values = rows.map((row) => raw(row, name));
  const numbers = values.map(numberOf).filter((value): value is number => value !== null && Number.isFinite(value));
  const isNumber = searched?.kind !== "categorical" && numbers.length > 0 && values.every((value) => value === undefined || value === null || numberOf(value) !== null);
  if (!isNumber) return nameAxis(name, rows);
  const log = searched?.kind === "log" || (searched === undefined && looksLog(numbers));
  const low = Math.min(...numbers, toNumber(searched?.low ?? null) ?? Infinity);
  const high = Math.max(...numbers, toNumber(searched?.high ?? null) ?? -Infinity);
  const axis = numberAxis(name, name, (row) => numberOf(raw(row, name)), low, high, log);
  if (!log && numbers.every(Number.isInteger)) {
    axis.ticks = axis.ticks.filter((tick) => Number.isInteger(Number(tick.text)));
    if (high > low && high - low < FEW) axis.steps = high - low + 1;
  }
  return axis;
}

function looksLog(numbers: readonly number[]): boolean {
  const low = numbers.reduce((a, b) => Math.min(a, b), Infinity);
  const high = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  return low > 0 && high / low >= 100;
}

function numberAxis(name: string, title: string, value: (row: TrialRow) => number | null, low: number, high: number, log: boolean): Axis {
  const axis = scale(low, high, log);
  return {
    name, title, kind: "number", steps: null, log,
    place: (row) => {
      const one = value(row);
      return one === null ? null : axis.place(one);
    },
    text: (row) => formatNumber(value(row)),
    value, at: axis.value,
    ticks: axis.ticks.map((tick) => ({ place: axis.place(tick) ?? 0, text: formatNumber(tick) })),
  };
}

function nameAxis(name: string, rows: readonly TrialRow[]): Axis {
  const text = (row: TrialRow): string => formatValue(raw(row, name));
  const { names, place } = categories(rows.map(text).sort());
  return {
    name, title: name, kind: "names", steps: Math.max(1, names.length), log: false, text, at: null,
    value: (row) => {
      const value = raw(row, name);
      return value === undefined || value === null ? null : typeof value === "number" ? value : text(row);
    },
    place: (row) => (raw(row, name) === undefined ? null : place(text(row))),
    ticks: names.slice(0, 30).map((one) => ({ place: place(one), text: one })),
  };
}

/** The axis of the searcher's metric; the better end is at the top where the chart is vertical. */
export function metricAxis(rows: readonly TrialRow[], log = false): Axis {
  const value = (row: TrialRow): number | null => toNumber(row.best);
  const numbers = rows.map(value).filter((one): one is number => one !== null && Number.isFinite(one));
  const low = numbers.reduce((a, b) => Math.min(a, b), Infinity);
  const high = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  return numberAxis(METRIC_AXIS, rows[0]?.metric ?? "metric", value, low, high, log);
}

/** The hyperparameters in which trials differ. */
export function varying(rows: readonly TrialRow[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row.hparams)) {
      const set = values.get(name) ?? new Set();
      if (set.size < 2) set.add(JSON.stringify(value));
      values.set(name, set);
    }
  }
  return [...values].filter(([, set]) => set.size > 1).map(([name]) => name).sort();
}

/** At most this many hyperparameters are shown unless others are chosen. */
export const FIRST_SHOWN = 10;

/**
 * The hyperparameters of `all` that charts show: the chosen ones in their order, or else the first ones. One with a brush
 * is always shown: it filters everything.
 */
export function shownHparams(all: readonly string[], chosen: readonly string[] | null, brushes: ReadonlyMap<string, unknown>): string[] {
  const shown = chosen ? chosen.filter((name) => all.includes(name)) : all.slice(0, FIRST_SHOWN);
  return [...shown, ...all.filter((name) => brushes.has(name) && !shown.includes(name))];
}

/** Brushes as text of an address: "lr:0.2~0.5;opt:0~0.1", places on the axes. */
export function parseBrushes(text: string): Map<string, [number, number]> {
  const found = new Map<string, [number, number]>();
  for (const part of text.split(";")) {
    const at = part.lastIndexOf(":");
    const [low, high] = part.slice(at + 1).split("~").map(Number);
    const name = decoded(part.slice(0, Math.max(0, at)));
    if (name && low !== undefined && high !== undefined && low < high) found.set(name, [low, high]);
  }
  return found;
}

/** Decodes percent-encoded text; returns "" if the encoding is invalid, as in a mistyped address. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export function brushText(brushes: ReadonlyMap<string, readonly [number, number]>): string {
  return [...brushes].map(([name, [low, high]]) => `${encodeURIComponent(name)}:${low.toFixed(3)}~${high.toFixed(3)}`).join(";");
}

/** The ids of the trials inside all brushes; null if there is no brush. */
export function brushed(rows: readonly TrialRow[], axes: readonly Axis[], brushes: ReadonlyMap<string, readonly [number, number]>): Set<number> | null {
  const active = axes.filter((axis) => brushes.has(axis.name));
  if (active.length === 0) return null;
  return new Set(rows.filter((row) => active.every((axis) => {
    const place = axis.place(row);
    const [low, high] = brushes.get(axis.name)!;
    return place !== null && place >= low && place <= high;
  })).map((row) => row.id));
}

/** The rows of the trials in `only`, and those without a trial; all rows if `only` is null. */
export function ofTrials<Row extends { trial: number | null }>(rows: readonly Row[], only: ReadonlySet<number> | null): readonly Row[] {
  return only ? rows.filter((row) => row.trial === null || only.has(row.trial)) : rows;
}
