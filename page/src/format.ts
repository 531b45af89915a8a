// Numbers, times and sizes as text.

/** A number in an answer; NaN and infinities, which JSON does not have, are text. */
export type Num = number | string | null;

/** Returns a value of an answer, in which non-finite numbers are text, as a number. */
export function toNumber(value: Num | undefined): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}

/** Returns a value that a program reported as a number, or null; of texts, only NaN and infinities are numbers. */
export function numberOf(value: unknown): number | null {
  if (typeof value === "number") return value;
  return value === "NaN" || value === "Infinity" || value === "-Infinity" ? Number(value) : null;
}

export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

export function formatCount(value: number): string {
  return value.toLocaleString("en-US");
}

export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : nouns}`;
}

export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return formatNumber(value);
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit === 0 ? size : size >= 99.5 ? Math.round(size) : Number(size.toPrecision(3))} ${units[unit]}`;
}

export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${formatDuration(-seconds)}`;
  if (seconds > 0 && seconds < 0.05) return "< 0.1 s";
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A time in the viewer's time zone. */
export function formatTime(seconds: number | null | undefined, withSeconds = false): string {
  if (seconds === null || seconds === undefined) return "–";
  const date = new Date(seconds * 1000);
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return `${day} ${time}${withSeconds ? `:${two(date.getSeconds())}` : ""}`;
}

export function formatAgo(seconds: number | null | undefined, now = Date.now() / 1000): string {
  if (seconds === null || seconds === undefined) return "–";
  const past = now - seconds;
  if (past < 45) return "just now";
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  if (past < 86400) return `${Math.round(past / 3600)} h ago`;
  if (past < 86400 * 30) return `${Math.round(past / 86400)} d ago`;
  return formatTime(seconds).slice(0, 10);
}

export function formatPercent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  return share >= 0.9995 ? "100 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** A message as a sentence: those of the server begin in lower case, because `det` puts words before them. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function firstLine(text: string | null | undefined): string {
  return (text ?? "").split("\n", 1)[0] ?? "";
}

/** A long text cut in the middle, for places where its beginning and its end both tell something. */
export function shorten(text: string, most = 80): string {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}
