// Terminal output as text: colours become classes, progress bars that rewrote their line become one line.

export interface Piece {
  text: string;
  css: string;
}

const ESCAPE = /\x1b(?:\[([0-9;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;

/** What a terminal would show of a line whose parts were separated by carriage returns: the last of them. */
export function lastState(text: string): string {
  if (!text.includes("\r")) return text;
  return text.split("\n").map((line) => {
    const states = line.replace(/\r+$/, "").split("\r");
    return states[states.length - 1]!;
  }).join("\n");
}

export function pieces(text: string): Piece[] {
  const plain = lastState(text);
  if (!plain.includes("\x1b")) return [{ text: plain, css: "" }];
  const found: Piece[] = [];
  const style = { colour: "", bold: false, dim: false, italic: false, underline: false };
  let at = 0;
  const push = (part: string): void => {
    if (!part) return;
    const css = [style.colour, style.bold && "a-b", style.dim && "a-d", style.italic && "a-i", style.underline && "a-u"].filter(Boolean).join(" ");
    found.push({ text: part, css });
  };
  for (const match of plain.matchAll(ESCAPE)) {
    push(plain.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m") apply(style, (match[1] || "0").split(";").map(Number));
  }
  push(plain.slice(at));
  return found.length ? found : [{ text: "", css: "" }];
}

function apply(style: { colour: string; bold: boolean; dim: boolean; italic: boolean; underline: boolean }, codes: number[]): void {
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0) Object.assign(style, { colour: "", bold: false, dim: false, italic: false, underline: false });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style.colour = `a-${code % 10}`;
    else if (code === 39) style.colour = "";
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4; // Colours by number are left out.
  }
}
