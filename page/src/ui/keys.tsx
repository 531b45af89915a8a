// Keys that work everywhere, and the list that "?" shows.
import { useEffect } from "preact/hooks";
import { go } from "../address.ts";
import { Dialog } from "./overlay.tsx";

const KEYS: [string, string][] = [
  ["/", "filter the table or search the log"],
  ["?", "show this list"],
  ["g r", "runs"], ["g f", "failures"], ["g q", "queue"], ["g m", "models"],
  ["↑ ↓ or j k", "move in a table"], ["Home End", "first or last row"],
  ["Space or x", "select the row; with Shift from the last one"], ["Enter", "open the row"],
  ["a", "select all rows that the filter shows"], ["c", "compare the selected rows"],
  ["Esc", "close, or clear the selection"],
  ["← → on a chart", "move along the curves"], ["+ − 0 on a chart", "zoom in, out, show all"],
  ["Enter on a chart", "highlight the trial; of one trial, open the log of the point"],
  ["t", "light or dark"],
];

export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)
    && !(target instanceof HTMLInputElement && ["checkbox", "radio", "range"].includes(target.type));
}

export function useKeys(showHelp: () => void, toggleTheme: () => void): void {
  useEffect(() => {
    let prefix = false;
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = { r: "/runs", f: "/failures", q: "/queue", m: "/models" }[event.key];
      if (prefix && target) go(target);
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
      else if (event.key === "?") showHelp();
      else if (event.key === "t") toggleTheme();
      else {
        prefix = event.key === "g";
        return;
      }
      prefix = false;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">{KEYS.map(([key, what]) => <><dt key={key}><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
      <div class="buttons"><button class="main" onClick={onClose}>Close</button></div>
    </Dialog>
  );
}
