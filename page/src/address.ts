// The state of a view as an address: everything that the user has chosen is in the query, so that a link restores it.
import { useEffect, useState } from "preact/hooks";
import { asked, exported } from "./api.ts";

export interface Address {
  path: string;
  params: URLSearchParams;
}

/** Browsers ignore calls, or throw, after some hundred of them in seconds (Safari: 100 in 30 s), which a slider makes. */
const BURST = 10;
const EVERY = 350;

const listeners = new Set<() => void>();
/** The present address, which may be newer than that of the browser; an exported page has no other one. */
let present: string | null = exported?.address ?? null;
let timer: ReturnType<typeof setTimeout> | undefined;
let allowed = BURST;
let counted = 0;

function inBrowser(): string {
  return location.pathname + location.search;
}

/** Writes the present address into the browser's history. */
function write(push = false): void {
  clearTimeout(timer);
  timer = undefined;
  if (exported || present === null || (!push && present === inBrowser())) return;
  try {
    if (push) history.pushState(null, "", present);
    else history.replaceState(null, "", present);
  } catch {
    timer = setTimeout(write, 10 * EVERY); // Safari: too many calls. The page itself does not read it.
  }
}

/** Writes the present address: at once after a click, less often while a slider moves or somebody types. */
function writeSoon(): void {
  const now = performance.now();
  allowed = Math.min(BURST, allowed + (now - counted) / EVERY);
  counted = now;
  if (allowed < 1) timer ??= setTimeout(write, (1 - allowed) * EVERY);
  else write();
  allowed = Math.max(0, allowed - 1);
}

if (typeof window !== "undefined" && !exported) {
  window.addEventListener("pagehide", () => write());
  window.addEventListener("popstate", () => {
    clearTimeout(timer);
    timer = undefined;
    present = inBrowser();
    for (const listener of [...listeners]) listener();
  });
}

export function parseAddress(text: string): Address {
  const [path = "/", query = ""] = text.split("?", 2);
  return { path: path === "/" || path === "" ? "/runs" : path.replace(/\/+$/, ""), params: new URLSearchParams(query) };
}

export function addressText(address: Address): string {
  const query = address.params.toString();
  return query ? `${address.path}?${query}` : address.path;
}

export function currentAddress(): Address {
  return parseAddress(present ?? inBrowser());
}

/** Returns the query with some parameters changed; null, "" and the default remove one. */
export function changed(params: URLSearchParams, patch: Record<string, string | null>): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  return next;
}

export function go(text: string, replace = false): void {
  const before = currentAddress().path;
  if (!replace) write(); // the entry that is left
  present = text;
  if (replace) writeSoon();
  else write(true);
  if (currentAddress().path !== before) {
    asked.clear();
    window.scrollTo(0, 0);
  }
  for (const listener of [...listeners]) listener();
}

/** Changes parameters of the present view. Typing and dragging replace the entry of the history; choices add one. */
export function setParams(patch: Record<string, string | null>, replace = true): void {
  const address = currentAddress();
  const next = { path: address.path, params: changed(address.params, patch) };
  if (addressText(next) !== addressText(address)) go(addressText(next), replace);
}

export function useAddress(): Address {
  const [address, setAddress] = useState(currentAddress);
  useEffect(() => {
    const update = (): void => setAddress(currentAddress());
    listeners.add(update);
    return () => void listeners.delete(update);
  }, []);
  return address;
}

/** One parameter of the address as a value with its setter. */
export function useParam(name: string, otherwise = ""): [string, (value: string, replace?: boolean) => void] {
  const { params } = useAddress();
  const value = params.get(name) ?? otherwise;
  return [value, (next, replace = true) => setParams({ [name]: next === otherwise ? null : next }, replace)];
}

/** The last query of each tab of each page: switching between tabs keeps filters, selections and zooms. */
const ofTabs = new Map<string, string>();

/** Returns the address of a tab as it was left, with `shared` parameters of the present one; remembers the present one. */
export function useTabs(path: string, first: string, shared: readonly string[] = []): { tab: string; address: (name: string) => string } {
  const { path: current, params } = useAddress();
  const tab = params.get("tab") ?? first;
  if (current === path) ofTabs.set(`${path} ${tab}`, params.toString());
  const address = (name: string): string => {
    const left = new URLSearchParams(ofTabs.get(`${path} ${name}`));
    const patch: Record<string, string | null> = { tab: name === first ? null : name };
    for (const each of shared) patch[each] = params.get(each);
    return addressText({ path, params: changed(left, patch) });
  };
  return { tab, address };
}

/** Lists are joined by commas; commas inside an item are escaped, as metric names may contain anything. */
export function joinList(items: readonly string[]): string {
  return items.map((item) => item.replace(/\\/g, "\\\\").replace(/,/g, "\\,")).join(",");
}

export function splitList(text: string): string[] {
  const items: string[] = [];
  let item = "";
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && at + 1 < text.length) item += text[++at];
    else if (text[at] === ",") {
      items.push(item);
      item = "";
    } else item += text[at];
  }
  if (item || items.length) items.push(item);
  return items;
}

/** Numbers as ranges ("1-40,44"), because thousands of selected trials have to fit into an address. */
export function joinNumbers(numbers: Iterable<number>): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let at = 0; at < sorted.length; at++) {
    const first = sorted[at]!;
    while (sorted[at + 1] === sorted[at]! + 1) at++;
    const last = sorted[at]!;
    parts.push(last > first ? `${first}-${last}` : `${first}`);
  }
  return parts.join(",");
}

export function splitNumbers(text: string): number[] {
  const numbers: number[] = [];
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    if (!match) continue;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    for (let number = first; number <= last && numbers.length < 100_000; number++) numbers.push(number);
  }
  return numbers;
}

/** A range of an axis ("100~400"); null where none was chosen. */
export function splitRange(text: string): [number, number] | null {
  const [low, high] = text.split("~").map(Number);
  return low !== undefined && high !== undefined && text !== "" && low < high ? [low, high] : null;
}

export function joinRange(range: [number, number] | null): string {
  return range ? `${Number(range[0].toPrecision(8))}~${Number(range[1].toPrecision(8))}` : "";
}
