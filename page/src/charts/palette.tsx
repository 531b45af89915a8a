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
