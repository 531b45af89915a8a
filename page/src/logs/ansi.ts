// Terminal output as text: colours become styles, progress bars that rewrote their line become one line.

export interface Piece {
  text: string;
  css: string;
  /** A colour by its number or its parts, where it is none of the eight that have a class. */
  colour?: string;
}

interface Style {
  colour: string;
  rgb: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: Style = { colour: "", rgb: "", bold: false, dim: false, italic: false, underline: false };

/** Control sequences, as ECMA-48 defines them, private ones included; titles and other strings; short escapes; a cut one. */
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\-~]|\[[0-?]*$|$)/g;

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
  const style = { ...PLAIN };
  let at = 0;
  const push = (part: string): void => {
    if (!part) return;
    const css = [style.colour, style.bold && "a-b", style.dim && "a-d", style.italic && "a-i", style.underline && "a-u"].filter(Boolean).join(" ");
    found.push({ text: part, css, ...(style.rgb ? { colour: style.rgb } : {}) });
  };
  for (const match of plain.matchAll(ESCAPE)) {
    push(plain.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m" && /^[0-9;:]*$/.test(match[1]!)) apply(style, match[1]!);
  }
  push(plain.slice(at));
  return found.length ? found : [{ text: "", css: "" }];
}

function apply(style: Style, text: string): void {
  // With colons a colour is one parameter, which may name a colour space before its parts: "38:2::255:0:0".
  const codes = text.split(";").flatMap((part) => part.replace(/^([34]8:2):[0-9]*:(?=[0-9]+:[0-9]+:[0-9]+)/, "$1:").split(":")).map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0) Object.assign(style, PLAIN);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) [style.colour, style.rgb] = [`a-${code % 10}`, ""];
    else if (code === 39) style.colour = style.rgb = "";
    else if (code === 38 || code === 48) { // A background would need a colour of its text: it is left out.
      const size = codes[at + 1] === 5 ? 2 : 4;
      const parts = codes.slice(at + 2, at + 1 + size);
      if (code === 38 && parts.length === size - 1) setColour(style, parts);
      at += size;
    }
  }
}

/** Sets one of the 256 colours of terminals, or a colour of three parts. */
function setColour(style: Style, parts: readonly number[]): void {
  const [number = 0] = parts;
  if (parts.length === 1 && number < 16) return void ([style.colour, style.rgb] = [`a-${number % 8}`, ""]);
  const level = (step: number): number => (step === 0 ? 0 : 55 + 40 * step);
  const cube = number - 16;
  const rgb = parts.length === 3 ? parts : number >= 232 ? Array<number>(3).fill(8 + 10 * (number - 232)) : [level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)];
  // The hue is the program's, the lightness that of the theme: all colours can be read on either.
  [style.colour, style.rgb] = ["", `oklch(from rgb(${rgb.map((part) => Math.min(255, part)).join(" ")}) var(--log-light) c h)`];
}
