// The filter language: `lr < 1e-3 and state = ERROR and (label = x or not restarts > 0)`.

export type Operator = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~";

export type Filter =
  | { kind: "all" }
  | { kind: "text"; text: string }
  | { kind: "compare"; name: string; operator: Operator; value: string; values: string[] }
  | { kind: "not"; part: Filter }
  | { kind: "and" | "or"; parts: Filter[] };

/** A mistake in a filter, with its position in the text. */
export interface Mistake {
  message: string;
  from: number;
  to: number;
}

export type Parsed = { filter: Filter; mistake: null } | { filter: null; mistake: Mistake };

export interface Token {
  kind: "word" | "quoted" | "operator" | "(" | ")" | ",";
  text: string;
  from: number;
  to: number;
}

const OPERATORS = new Set<string>(["=", "!=", "<", "<=", ">", ">=", "~", "!~", "=="]);
const SPECIAL = /[\s()<>=!~,"']/;

class Wrong extends Error {
  constructor(readonly mistake: Mistake) {
    super(mistake.message);
  }
}

export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const from = at;
    const letter = text[at]!;
    if (/\s/.test(letter)) at++;
    else if (letter === "(" || letter === ")" || letter === ",") found.push({ kind: letter, text: letter, from, to: ++at });
    else if (letter === '"' || letter === "'") {
      let value = "";
      at++;
      while (at < text.length && text[at] !== letter) {
        if (text[at] === "\\" && at + 1 < text.length) at++;
        value += text[at++];
      }
      if (at >= text.length) throw new Wrong({ message: "This quotation mark is not closed.", from, to: text.length });
      found.push({ kind: "quoted", text: value, from, to: ++at });
    } else if (/[<>=!~]/.test(letter)) {
      while (at < text.length && /[<>=!~]/.test(text[at]!)) at++;
      const operator = text.slice(from, at);
      if (!OPERATORS.has(operator)) {
        throw new Wrong({ message: `${operator} is no comparison. Use =, !=, <, <=, >, >=, ~ (contains) or !~.`, from, to: at });
      }
      found.push({ kind: "operator", text: operator === "==" ? "=" : operator, from, to: at });
    } else {
      while (at < text.length && !SPECIAL.test(text[at]!)) at++;
      found.push({ kind: "word", text: text.slice(from, at), from, to: at });
    }
  }
  return found;
}

/** Parses a filter; `isName` says which names exist, so that a misspelt one is shown at its place. */
export function parseFilter(text: string, isName: (name: string) => boolean = () => true): Parsed {
  try {
    const list = tokens(text);
    if (list.length === 0) return { filter: { kind: "all" }, mistake: null };
    const reader = new Reader(list, text.length, isName);
    const filter = reader.either();
    reader.end();
    return { filter, mistake: null };
  } catch (error) {
    if (error instanceof Wrong) return { filter: null, mistake: error.mistake };
    throw error;
  }
}

class Reader {
  private at = 0;

  constructor(private readonly list: Token[], private readonly length: number,
              private readonly isName: (name: string) => boolean) {}

  either(): Filter {
    const parts = [this.all()];
    while (this.takeWord("or")) parts.push(this.all());
    return parts.length === 1 ? parts[0]! : { kind: "or", parts };
  }

  end(): void {
    const token = this.list[this.at];
    if (token?.kind === ")") throw new Wrong({ message: "There is no ( for this ).", from: token.from, to: token.to });
    if (token) throw new Wrong({ message: "Put “and” or “or” before this.", from: token.from, to: token.to });
  }

  private all(): Filter {
    const parts = [this.one()];
    for (;;) {
      if (this.takeWord("and")) parts.push(this.one());
      else if (this.startsTerm()) parts.push(this.one()); // Two terms side by side: both have to hold.
      else break;
    }
    return parts.length === 1 ? parts[0]! : { kind: "and", parts };
  }

  private startsTerm(): boolean {
    const token = this.list[this.at];
    return token !== undefined && (token.kind === "(" || token.kind === "quoted"
      || (token.kind === "word" && token.text.toLowerCase() !== "or"));
  }

  private one(): Filter {
    if (this.takeWord("not")) return { kind: "not", part: this.one() };
    const token = this.list[this.at];
    if (!token) throw new Wrong({ message: "A condition is missing here.", from: this.length, to: this.length });
    if (token.kind === "(") {
      this.at++;
      const filter = this.either();
      if (this.list[this.at]?.kind !== ")") {
        throw new Wrong({ message: "This ( is not closed.", from: token.from, to: token.to });
      }
      this.at++;
      return filter;
    }
    if (token.kind !== "word" && token.kind !== "quoted") {
      throw new Wrong({ message: "A name or a text belongs here.", from: token.from, to: token.to });
    }
    this.at++;
    const next = this.list[this.at];
    if (next?.kind === "word" && next.text.toLowerCase() === "in" && this.list[this.at + 1]?.kind === "(") {
      this.at += 2;
      return this.compare(token, "=", this.several());
    }
    if (next?.kind !== "operator") return { kind: "text", text: token.text };
    this.at++;
    const value = this.list[this.at];
    if (value?.kind !== "word" && value?.kind !== "quoted") {
      const from = value?.from ?? this.length;
      throw new Wrong({ message: `A value belongs after ${next.text}.`, from, to: value?.to ?? from });
    }
    this.at++;
    const operator = next.text as Operator;
    if (["<", "<=", ">", ">="].includes(operator) && parseNumber(value.text) === null) {
      throw new Wrong({ message: `${next.text} compares numbers, and this is none.`, from: value.from, to: value.to });
    }
    return this.compare(token, operator, [value.text]);
  }

  private several(): string[] {
    const values: string[] = [];
    for (;;) {
      const token = this.list[this.at++];
      if (token?.kind === "word" || token?.kind === "quoted") values.push(token.text);
      else if (token?.kind === ")" && values.length) return values;
      else if (token?.kind !== ",") {
        const from = token?.from ?? this.length;
        throw new Wrong({ message: "Values belong here: in (a, b).", from, to: token?.to ?? from });
      }
    }
  }

  private compare(name: Token, operator: Operator, values: string[]): Filter {
    if (!this.isName(name.text)) {
      throw new Wrong({ message: `There is no column “${name.text}”.`, from: name.from, to: name.to });
    }
    return { kind: "compare", name: name.text, operator, value: values[0]!, values };
  }

  private takeWord(word: string): boolean {
    const token = this.list[this.at];
    // A word before a comparison is a name, even where it is called "not".
    if (token?.kind !== "word" || token.text.toLowerCase() !== word || this.list[this.at + 1]?.kind === "operator") return false;
    this.at++;
    return true;
  }
}

/** A number as a person writes it: 1e-3, 5k, 2.5M, 10%, nan, inf. */
export function parseNumber(text: string): number | null {
  const word = text.toLowerCase();
  if (word === "nan") return NaN;
  if (word === "inf" || word === "infinity") return Infinity;
  if (word === "-inf" || word === "-infinity") return -Infinity;
  const match = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(k|m|g|%)?$/i.exec(text);
  if (!match) return null;
  const factor = { k: 1e3, m: 1e6, g: 1e9, "%": 0.01 }[(match[2] ?? "").toLowerCase()] ?? 1;
  return Number(match[1]) * factor;
}

export type Cell = number | string | boolean | null | undefined | readonly string[];

/** Returns a test of rows: `value` reads a column by its name, `texts` returns the text in which bare words are searched. */
export function rowTest<Row>(filter: Filter, value: (row: Row, name: string) => Cell,
                             texts: (row: Row) => string): (row: Row) => boolean {
  switch (filter.kind) {
    case "all": return () => true;
    case "text": {
      const wanted = filter.text.toLowerCase();
      return (row) => texts(row).toLowerCase().includes(wanted);
    }
    case "not": {
      const part = rowTest(filter.part, value, texts);
      return (row) => !part(row);
    }
    case "and": {
      const parts = filter.parts.map((part) => rowTest(part, value, texts));
      return (row) => parts.every((part) => part(row));
    }
    case "or": {
      const parts = filter.parts.map((part) => rowTest(part, value, texts));
      return (row) => parts.some((part) => part(row));
    }
    case "compare": {
      const { name, operator } = filter;
      const wanted = filter.values.map((text) => ({ text: text.toLowerCase(), number: parseNumber(text) }));
      return (row) => {
        const cell = value(row, name);
        const negative = operator === "!=" || operator === "!~";
        const positive = operator === "!=" ? "=" : operator === "!~" ? "~" : operator;
        return wanted.some((one) => matches(cell, positive, one.text, one.number)) !== negative;
      };
    }
  }
}

function matches(cell: Cell, operator: Operator, text: string, number: number | null): boolean {
  if (cell === null || cell === undefined) return operator === "=" && (text === "none" || text === "null" || text === "");
  if (Array.isArray(cell)) return (cell as readonly string[]).some((item) => matches(item, operator, text, number));
  if (operator === "~") return String(cell).toLowerCase().includes(text);
  if (operator === "=") {
    if (typeof cell === "number" && number !== null) return cell === number || (Number.isNaN(cell) && Number.isNaN(number));
    return String(cell).toLowerCase() === text;
  }
  const left = typeof cell === "number" ? cell : parseNumber(String(cell));
  if (left === null || number === null) return false;
  switch (operator) {
    case "<": return left < number;
    case "<=": return left <= number;
    case ">": return left > number;
    default: return left >= number;
  }
}

/** Quotes a name or value where the language needs it. */
export function quoted(text: string): string {
  const plain = text !== "" && !SPECIAL.test(text) && !/^(and|or|not|in)$/i.test(text);
  return plain ? text : `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
}
