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

/** The canvas on the colour of the page, with a title: a picture that is understood without the page. */
export function savePng(canvas: HTMLCanvasElement, title: string): void {
  const style = getComputedStyle(document.documentElement);
  const ratio = devicePixelRatio || 1;
  const head = Math.round(30 * ratio);
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height + head;
  const context = copy.getContext("2d");
  if (!context) return;
  context.fillStyle = style.getPropertyValue("--panel");
  context.fillRect(0, 0, copy.width, copy.height);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${14 * ratio}px ${style.getPropertyValue("--font")}`;
  context.textBaseline = "middle";
  context.fillText(title, 12 * ratio, head / 2, copy.width - 24 * ratio);
  context.drawImage(canvas, 0, head);
  copy.toBlob((blob) => blob && saveBlob(blob, fileName(title, "png")), "image/png");
}
