// Scales of axes: from values to places and back, ticks, and a range that a few outliers do not dominate.

export interface Scale {
  low: number;
  high: number;
  log: boolean;
  /** The share of the axis, 0 at its low end; null where a value has no place (log of zero or less, non-finite). */
  place: (value: number) => number | null;
  value: (place: number) => number;
  ticks: number[];
}

/** Whether a range is too narrow to be divided: its ends are one number, or differ by little more than rounding. */
export function isNarrow(low: number, high: number): boolean {
  return !(high > low && high - low >= 1e-12 * Math.max(Math.abs(low), Math.abs(high)));
}

export function scale(low: number, high: number, log = false): Scale {
  if (isNarrow(low, high)) [low, high] = widened(low, log);
  if (log && low <= 0) low = Math.min(high / 1e3, 1e-3);
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  return {
    low, high, log,
    place: (value) => {
      if (!Number.isFinite(value) || (log && value <= 0)) return null;
      return ((log ? Math.log10(value) : value) - from) / (to - from);
    },
    value: (place) => {
      const raw = from + place * (to - from);
      return log ? 10 ** raw : raw;
    },
    ticks: log ? logTicks(low, high) : linearTicks(low, high),
  };
}

function widened(value: number, log: boolean): [number, number] {
  if (!Number.isFinite(value)) return log ? [0.1, 10] : [0, 1];
  if (log && value > 0) return [value / 2, value * 2];
  const by = value === 0 ? 1 : Math.abs(value) * 0.1;
  return [value - by, value + by];
}

/** About five round numbers within the range. */
export function linearTicks(low: number, high: number, wanted = 5): number[] {
  const rough = (high - low) / wanted;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => one >= rough * 0.99) ?? size * 10;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.min(4 * wanted, Math.floor(high / step + 1e-9) - first + 1);
  // By a counter: where numbers are so large that adding one changes nothing, the tick itself would never reach the end.
  const ticks: number[] = [];
  for (let at = 0; at < count; at++) ticks.push(Number(((first + at) * step).toPrecision(12)));
  return ticks;
}

export function logTicks(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return linearTicks(low, high, 4).filter((tick) => tick > 0);
  const step = Math.max(1, Math.ceil((last - first) / 6));
  const ticks: number[] = [];
  for (let power = first; power <= last; power += step) ticks.push(Number(`1e${power}`));
  return ticks;
}

/** The number of values that are sampled to find the middle of the range; the extremes are those of all values. */
const SAMPLE = 10_000;

/**
 * Returns a range that shows nearly all values. Where the extremes are more than four times as far apart as the middle
 * 96 %, the range is that of the middle with a margin, and values outside are to be marked at its edge.
 */
export function robustRange(values: readonly number[], log = false): { low: number; high: number; outside: number } | null {
  const map = (value: number): number => (log ? Math.log10(value) : value);
  const back = (value: number): number => (log ? 10 ** value : value);
  const sample: number[] = [];
  const every = Math.max(1, Math.floor(values.length / SAMPLE));
  let [smallest, largest, count] = [Infinity, -Infinity, 0];
  for (const value of values) {
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    if (value < smallest) smallest = value;
    if (value > largest) largest = value;
    if (count++ % every === 0) sample.push(value);
  }
  if (count === 0) return null;
  const sorted = Float64Array.from(sample).sort();
  const at = (share: number): number => map(sorted[Math.round(share * (sorted.length - 1))]!);
  const [least, most, low, high] = [map(smallest), map(largest), at(0.02), at(0.98)];
  const spread = high - low;
  let [from, to] = [least, most];
  if (count >= 20 && spread > 0 && most - least > 4 * spread) {
    from = Math.max(least, low - spread * 0.5);
    to = Math.min(most, high + spread * 0.5);
  }
  const air = !isNarrow(back(from), back(to)) ? (to - from) * 0.04 : log ? 0.3 : Math.abs(from) * 0.05 || 0.5;
  const [shownLow, shownHigh] = [back(from - air), back(to + air)];
  let outside = 0;
  if (smallest < shownLow || largest > shownHigh) {
    for (const value of values) if (Number.isFinite(value) && (!log || value > 0) && (value < shownLow || value > shownHigh)) outside++;
  }
  return { low: shownLow, high: shownHigh, outside };
}

/** The place of each of several values on an axis of names, evenly spaced. */
export function categories(values: readonly string[]): { names: string[]; place: (name: string) => number } {
  const names = [...new Set(values)];
  return { names, place: (name) => (names.length === 1 ? 0.5 : names.indexOf(name) / (names.length - 1)) };
}
