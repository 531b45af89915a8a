// A chart as a file: PNG of its canvas, CSV of its values.

export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveText(text: string, name: string, type = "text/csv"): void {
  saveBlob(new Blob([text], { type }), name);
}

/**
 * Rows as the text of a CSV file. Numbers are written as they are. A text that a spreadsheet would take for a formula
 * gets an apostrophe in front: spreadsheets run quoted formulas, too.
 */
export function csv(rows: readonly (readonly (string | number | null)[])[]): string {
  const cell = (value: string | number | null): string => {
    if (typeof value !== "string") return value === null ? "" : String(value);
    const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** A name for a file that every system accepts. */
export function fileName(title: string, ending: string): string {
  return `${title.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "chart"}.${ending}`;
}

/** A line of a chart in its legend. */
export interface LegendEntry {
  name: string;
  colour: string;
  dashes: readonly number[];
}

/** At most this many curves are named in a picture. */
const MOST_NAMED = 60;

/** The canvas on the colour of the page, with a title and a legend: a picture that is understood without the page. */
export function savePng(canvas: HTMLCanvasElement, title: string, legend: readonly LegendEntry[] = []): void {
  const style = getComputedStyle(document.documentElement);
  const ratio = devicePixelRatio || 1;
  const head = Math.round(30 * ratio);
  const copy = document.createElement("canvas");
  const context = copy.getContext("2d");
  if (!context) return;
  const font = style.getPropertyValue("--font");
  context.font = `${12 * ratio}px ${font}`;
  const named = legend.slice(0, MOST_NAMED);
  const places = placed([...named.map((one) => one.name), ...(legend.length > named.length ? [`and ${legend.length - named.length} more`] : [])],
    (text) => context.measureText(text).width + 48 * ratio, canvas.width - 24 * ratio);
  const row = 20 * ratio;
  const foot = places.length ? (places[places.length - 1]!.row + 1) * row + 10 * ratio : 0;
  copy.width = canvas.width;
  copy.height = canvas.height + head + Math.round(foot);
  context.fillStyle = style.getPropertyValue("--panel");
  context.fillRect(0, 0, copy.width, copy.height);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${14 * ratio}px ${font}`;
  context.textBaseline = "middle";
  context.fillText(title, 12 * ratio, head / 2, copy.width - 24 * ratio);
  context.drawImage(canvas, 0, head);
  context.font = `${12 * ratio}px ${font}`;
  places.forEach(({ text, left, row: at }, index) => {
    const [x, y] = [12 * ratio + left, canvas.height + head + (at + 0.5) * row];
    const line = named[index];
    if (line) {
      context.strokeStyle = line.colour;
      context.lineWidth = 3 * ratio;
      context.setLineDash(line.dashes.map((dash) => dash * ratio));
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x + 22 * ratio, y);
      context.stroke();
    }
    context.fillText(text, line ? x + 28 * ratio : x, y, copy.width - x - 40 * ratio);
  });
  copy.toBlob((blob) => blob && saveBlob(blob, fileName(title, "png")), "image/png");
}

/** Places texts side by side, in as many rows as they need. */
export function placed(texts: readonly string[], width: (text: string) => number, most: number): { text: string; left: number; row: number }[] {
  let [left, row] = [0, 0];
  return texts.map((text) => {
    const own = width(text);
    if (left > 0 && left + own > most) [left, row] = [0, row + 1];
    const place = { text, left, row };
    left += own;
    return place;
  });
}
