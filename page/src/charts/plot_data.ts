// Converts the answer of the server into drawn lines: pure functions, without a canvas.
import { csv } from "./files.ts";
import { isNarrow, robustRange, scale } from "./scales.ts";
import type { Curve, Curves } from "../../generated/types.ts";

/** A value of a drawn line: undefined continues the line over the place, null interrupts it. */
export type Value = number | null | undefined;

export interface Series {
  trial: number;
  curve: Curve;
  values: Value[];
  smooth: Value[] | null;
}

export interface Outlier {
  x: number;
  /** 1 above the range, -1 below it. */
  side: 1 | -1;
  series: number;
}

/**
 * Returns one x for all curves and their values. A bucket with two values gets two places, so that its least and its
 * greatest value are both on the line; where every bucket has one value, every value has its own place.
 */
export function toSeries(answer: Curves, smoothing: number): { x: number[]; series: Series[] } {
  const double = answer.curves.some((curve) => curve.low.some((low, at) => low !== curve.high[at]));
  const x: number[] = [];
  for (let at = 0; at < answer.x.length; at++) {
    const here = answer.x[at]!;
    x.push(here);
    if (!double) continue;
    const next = answer.x[at + 1];
    const width = next === undefined ? here - (answer.x[at - 1] ?? here - 1) : next - here;
    x.push(here + width / 2);
  }
  const drawn = answer.curves.filter((curve) => curve.attempt === null || curve.points > 0);
  const series = drawn.map((curve) => {
    const values = toValues(curve, answer.x, double);
    return { trial: curve.trial, curve, values, smooth: smoothing > 0 ? smoothed(values, smoothing) : null };
  });
  return { x, series };
}

function toValues(curve: Curve, x: readonly number[], double: boolean): Value[] {
  const broken = brokenBuckets(curve, x);
  const values: Value[] = [];
  for (let at = 0; at < x.length; at++) {
    const [low, high] = [curve.low[at] ?? null, curve.high[at] ?? null];
    const missing = broken.has(at) ? null : undefined;
    values.push(low ?? missing);
    if (double) values.push(low !== null && high !== low ? high : missing);
  }
  return values;
}

/** Buckets that hold nothing but non-finite values: the line has to stop there. */
function brokenBuckets(curve: Curve, x: readonly number[]): Set<number> {
  const broken = new Set<number>();
  for (const mark of curve.marks) {
    const at = nearest(x, mark.x);
    if (at >= 0 && (curve.low[at] ?? null) === null) broken.add(at);
  }
  return broken;
}

/** The index of the value of a sorted list that is nearest to a value. */
export function nearest(list: readonly number[], value: number): number {
  let [low, high] = [0, list.length - 1];
  if (high < 0) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle]! <= value) low = middle;
    else high = middle;
  }
  return value - list[low]! <= list[high]! - value ? low : high;
}

/** The exponential moving average; its start is corrected, and an interruption of the line stays one. */
export function smoothed(values: readonly Value[], weight: number): Value[] {
  let [mean, total] = [0, 0];
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    mean = mean * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return mean / total;
  });
}

/** The values above zero, which a logarithmic axis can show; null if there are none. */
export function aboveZero({ x, series }: { x: number[]; series: Series[] }): { x: number[]; series: Series[] } | null {
  const first = x.findIndex((one) => one > 0);
  if (first <= 0) return first < 0 ? null : { x, series };
  const cut = series.map((one) => ({ ...one, values: one.values.slice(first), smooth: one.smooth?.slice(first) ?? null }));
  return { x: x.slice(first), series: cut };
}

/** The range of the x axis: the chosen one if it can be shown, else that of the values. */
export function xRange(zoom: [number, number] | null, x: readonly number[], log: boolean): [number, number] {
  if (zoom && !isNarrow(...zoom) && !(log && zoom[1] <= 0)) {
    return log && zoom[0] <= 0 ? [Math.min(x[0] ?? zoom[1], zoom[1] / 10), zoom[1]] : zoom;
  }
  const { low, high } = scale(x[0] ?? 0, x[x.length - 1] ?? 1, log);
  return [low, high];
}

/** The range that is scaled by a factor around a centre, on the scale of the axis. */
export function zoomed([low, high]: readonly [number, number], centre: number, times: number, log: boolean): [number, number] {
  if (log) {
    const [from, to] = zoomed([Math.log10(low), Math.log10(high)], Math.log10(centre), times, false);
    return [10 ** from, 10 ** to];
  }
  const half = ((high - low) / 2) * times;
  return [centre - half, centre + half];
}

/** The range that is moved by a share of its length, on the scale of the axis. */
export function shifted([low, high]: readonly [number, number], share: number, log: boolean): [number, number] {
  if (log) {
    const [from, to] = shifted([Math.log10(low), Math.log10(high)], share, false);
    return [10 ** from, 10 ** to];
  }
  const by = (high - low) * share;
  return [low + by, high + by];
}

/** The range; null if it shows all curves, but for the half of a bucket at their ends. */
export function withinCurves(range: [number, number], curves: readonly Curve[]): [number, number] | null {
  const low = curves.reduce((least, curve) => Math.min(least, curve.first?.x ?? Infinity), Infinity);
  const high = curves.reduce((most, curve) => Math.max(most, curve.last?.x ?? -Infinity), -Infinity);
  const slack = (range[1] - range[0]) / 100;
  return range[0] - slack <= low && range[1] + slack >= high ? null : range;
}

/** The finite values of the shown part of a curve: the smallest and the largest one, null if there is none. */
export function extremes(curve: Curve): [number | null, number | null] {
  const low = curve.low.filter((value) => value !== null);
  const high = curve.high.filter((value) => value !== null);
  return low.length ? [low.reduce((a, b) => Math.min(a, b)), high.reduce((a, b) => Math.max(a, b))] : [null, null];
}

export function finiteValues(series: readonly Series[]): number[] {
  const found: number[] = [];
  for (const one of series) for (const value of one.values) if (value !== null && value !== undefined) found.push(value);
  return found;
}

/** The range of the y axis, and the places where values lie outside it. */
export function yRange(x: readonly number[], series: readonly Series[], log: boolean,
                       full: boolean): { low: number; high: number; outliers: Outlier[]; robust: boolean } {
  const values = finiteValues(series);
  const robust = robustRange(values, log);
  if (!robust) return { low: log ? 0.1 : 0, high: log ? 10 : 1, outliers: outside(x, series, log ? 0.1 : 0, Infinity), robust: false };
  let { low, high } = robust;
  if (full && robust.outside > 0) {
    const shown = log ? values.filter((value) => value > 0) : values;
    low = shown.reduce((a, b) => Math.min(a, b));
    high = shown.reduce((a, b) => Math.max(a, b));
    const air = log ? 1 : (high - low) * 0.04;
    [low, high] = log ? [low / 1.1, high * 1.1] : [low - air, high + air];
  }
  return { low, high, outliers: outside(x, series, low, high), robust: robust.outside > 0 };
}

function outside(x: readonly number[], series: readonly Series[], low: number, high: number): Outlier[] {
  const found: Outlier[] = [];
  for (let index = 0; index < series.length; index++) {
    const values = series[index]!.values;
    for (let at = 0; at < values.length; at++) {
      const value = values[at];
      if (value === null || value === undefined) continue;
      if (value > high) found.push({ x: x[at]!, side: 1, series: index });
      else if (value < low) found.push({ x: x[at]!, side: -1, series: index });
    }
  }
  return found;
}

/** The name of a curve: points that a later attempt repeats name their attempt. */
export function curveName(curve: Curve, name: (trial: number) => string): string {
  return curve.attempt === null ? name(curve.trial) : `${name(curve.trial)}, attempt ${curve.attempt}, overwritten`;
}

/** The numbers of reported and of drawn points in words: "10,000 points, 1,000 drawn". */
export function drawnText(answer: Curves): string {
  const points = answer.curves.reduce((sum, curve) => sum + curve.points, 0);
  const marked = answer.curves.reduce((sum, curve) => sum + curve.marks.reduce((all, mark) => all + mark.count, 0), 0);
  const drawn = Math.min(points, answer.curves.reduce((sum, curve) => sum + curve.drawn, 0) + marked);
  const count = (value: number): string => value.toLocaleString("en-US");
  if (points === 0) return "no points";
  return points === drawn ? `${count(points)} points, all drawn` : `${count(points)} points, ${count(drawn)} drawn`;
}

/**
 * The values as rows for a CSV file: one row for each x, and for each curve its low, its high, and in words what is not
 * finite there ("NaN", "2 NaN, 1 Infinity").
 */
export function toCsv(answer: Curves, name: (trial: number) => string): string {
  const heads = [answer.axis, ...answer.curves.flatMap((curve) => ["low", "high", "not finite"].map((part) => `${curveName(curve, name)} ${part}`))];
  const marks = answer.curves.map((curve) => {
    const at = new Map<number, string[]>();
    for (const mark of curve.marks) {
      const place = nearest(answer.x, mark.x);
      at.set(place, [...at.get(place) ?? [], mark.count === 1 ? mark.kind : `${mark.count} ${mark.kind}`]);
    }
    return at;
  });
  return csv([heads, ...answer.x.map((x, at) => [x, ...answer.curves.flatMap((curve, index) => [
    curve.low[at] ?? null, curve.high[at] ?? null, marks[index]!.get(at)?.join(", ") ?? null,
  ])])]);
}
