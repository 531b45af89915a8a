// Colours of charts, read from the stylesheet: a trial has the same one everywhere, in either theme.
import { useEffect, useState } from "preact/hooks";

export const COLOURS = 10;

export function colourIndex(trial: number): number {
  return ((trial % COLOURS) + COLOURS) % COLOURS;
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The colours of trials as a list; read once for a chart, because each reading asks the browser for its styles. */
export function trialColours(): string[] {
  return Array.from({ length: COLOURS }, (_, at) => cssColour(`--trial-${at}`));
}

/** The dashes of the trials of one chart whose colour is the same, in pixels; the first of them is drawn solid. */
const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 2]];
/** Dashes of more curves than these cannot be told apart. */
const MOST_DASHED = 40;

/** Returns the dashes of each trial of a chart. The colour is that of the trial; the dashes depend on the others in the chart. */
export function dashesOf(trials: Iterable<number>): (trial: number) => readonly number[] {
  const sorted = [...new Set(trials)].sort((a, b) => a - b);
  const seen = Array<number>(COLOURS).fill(0);
  const found = new Map(sorted.length > MOST_DASHED ? [] : sorted.map((trial) => [trial, DASHES[seen[colourIndex(trial)]!++ % DASHES.length]!]));
  return (trial) => found.get(trial) ?? [];
}

/** The line of a trial in a chart: its colour and its dashes. */
export function LineSwatch({ trial, dashes }: { trial: number; dashes: readonly number[] }) {
  return (
    <svg class="line-swatch" viewBox="0 0 22 10" aria-hidden="true"><line x1="0" y1="5" x2="22" y2="5" stroke-width="3" stroke-dasharray={dashes.join(" ") || undefined} style={{ stroke: `var(--trial-${colourIndex(trial)})` }} /></svg>
  );
}

export function Swatch({ trial }: { trial: number }) {
  return <span class="swatch" aria-hidden="true" style={{ background: `var(--trial-${colourIndex(trial)})` }} />;
}

/** Changes when the theme changes, so that canvases are drawn again. */
export function useTheme(): string {
  const read = (): string => document.documentElement.dataset.theme ?? "light";
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const update = (): void => setTheme(read());
    window.addEventListener("det-theme", update);
    return () => window.removeEventListener("det-theme", update);
  }, []);
  return theme;
}

/** The colour of a share between 0 and 1, between three colours of the stylesheet. */
export function heatColours(): (share: number) => string {
  const stops = [0, 1, 2].map((at) => parts(cssColour(`--heat-${at}`)));
  return (share) => {
    const place = Math.min(1, Math.max(0, share)) * 2;
    const first = Math.min(1, Math.floor(place));
    const [from, to] = [stops[first]!, stops[first + 1]!];
    const mixed = from.map((value, at) => Math.round(value + (to[at]! - value) * (place - first)));
    return `rgb(${mixed.join(" ")})`;
  };
}

function parts(hex: string): number[] {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
