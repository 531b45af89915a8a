// A table that draws only the rows in sight: 10,000 rows cost as much as 40.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "../address.ts";
import { isTyping } from "../ui/keys.tsx";
import type { Column } from "./columns.tsx";
import { toggled, type SortKey } from "./sort.ts";

const ROW = 34;
const SPARE = 8;
const CHECK = 40;

export interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  pinned: number;
  id: (row: Row) => number;
  address: (row: Row) => string;
  sort: readonly SortKey[];
  onSort: (keys: SortKey[]) => void;
  selected: ReadonlySet<number>;
  onSelect: (ids: Set<number>) => void;
  baselines?: ReadonlySet<number>;
  /** Why all rows cannot be selected at once; null where they can. */
  notAll: string | null;
  onCompare?: () => void;
}

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, id, selected, onSelect } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 700 });
  // Rows are kept by their ids: a new row of a running search moves the others.
  const [hereId, setHere] = useState<number | null>(null);
  const last = useRef<number | null>(null);
  const here = hereId === null ? -1 : rows.findIndex((row) => id(row) === hereId);

  const measure = (): void => {
    const element = frame.current;
    if (element) setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useLayoutEffect(measure, []);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  const first = Math.max(0, Math.min(Math.floor(view.top / ROW) - SPARE, rows.length - 1));
  const end = Math.min(rows.length, first + Math.ceil(view.height / ROW) + 2 * SPARE);
  const shown = rows.slice(first, end);

  const select = (at: number, range: boolean): void => {
    const row = rows[at];
    if (!row) return;
    const next = new Set(selected);
    const before = range ? rows.findIndex((one) => id(one) === last.current) : -1;
    if (before >= 0) {
      const [from, to] = [Math.min(before, at), Math.max(before, at)];
      for (const one of rows.slice(from, to + 1)) next.add(id(one));
    } else if (next.has(id(row))) next.delete(id(row));
    else next.add(id(row));
    last.current = id(row);
    onSelect(next);
  };
  const all = rows.length > 0 && rows.every((row) => selected.has(id(row)));
  const selectAll = (on: boolean): void => {
    if (!on) onSelect(new Set());
    else if (props.notAll === null) onSelect(new Set(rows.map(id)));
  };

  const moveTo = (at: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, at));
    const row = rows[next];
    if (row) setHere(id(row));
    const element = frame.current;
    if (!element) return;
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW;
    else if ((next + 2) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (next + 2) * ROW - element.clientHeight;
  };

  const keys = (event: KeyboardEvent): void => {
    if (isTyping(event) || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(view.height / ROW) - 2);
    const steps: Record<string, number> = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: rows.length - 1 };
    // Space and Enter belong to what has the focus: a check box selects its own row, whichever row is marked.
    const onControl = event.target instanceof HTMLElement && event.target.closest("button, a, input") !== null;
    if (event.key in steps) moveTo(steps[event.key]!);
    else if ((event.key === " " && !onControl) || event.key === "x") select(here, event.shiftKey);
    else if (event.key === "X") select(here, true);
    else if (event.key === "Enter" && !onControl && rows[here]) go(props.address(rows[here]));
    else if (event.key === "a") selectAll(true);
    else if (event.key === "c" && props.onCompare) props.onCompare();
    else if (event.key === "Escape" && selected.size) onSelect(new Set());
    else return;
    event.preventDefault();
  };

  let left = CHECK;
  const places = columns.map((column, at) => {
    const place = at < props.pinned ? left : null;
    left += column.width;
    return place;
  });
  const css = (column: Column<Row>, at: number): string =>
    `${column.right ? "right" : ""}${places[at] !== null ? " pinned" : ""}${at === props.pinned - 1 ? " edge" : ""}`;
  return (
    <div class="table-frame" ref={frame} onScroll={measure} onKeyDown={keys} tabIndex={0} role="region" aria-label={`${props.label}, scrollable`}>
      <table class="table" aria-label={props.label} aria-rowcount={rows.length + 1} style={{ width: `${left}px` }}>
        <colgroup><col style={{ width: `${CHECK}px` }} />{columns.map((column) => <col key={column.name} style={{ width: `${column.width}px` }} />)}</colgroup>
        <thead>
          <tr aria-rowindex={1}>
            <th class="pinned check" style={{ left: 0, textAlign: "center" }}>
              <input type="checkbox" aria-label="Select all rows that are shown" checked={all} disabled={props.notAll !== null && !all} title={props.notAll ?? undefined} onChange={() => selectAll(!all)} />
            </th>
            {columns.map((column, at) => (
              <Heading key={column.name} column={column} css={css(column, at)} left={places[at] ?? null} sort={props.sort} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true"><td colSpan={columns.length + 1} style={{ height: `${first * ROW}px`, padding: 0, border: 0 }} /></tr>}
          {shown.map((row, offset) => {
            const at = first + offset;
            const key = id(row);
            const chosen = selected.has(key);
            const look = `${chosen ? "chosen" : ""}${at === here ? " here" : ""}${props.baselines?.has(key) ? " baseline" : ""}`;
            return (
              <tr key={key} class={look} aria-rowindex={at + 2} aria-selected={chosen} onClick={() => setHere(key)} onFocusIn={() => setHere(key)}>
                <td class="pinned check" style={{ left: 0, textAlign: "center" }}>
                  <input type="checkbox" aria-label={`Select ${key}`} checked={chosen} onClick={(event) => select(at, event.shiftKey)} />
                </td>
                {columns.map((column, index) => (
                  <td key={column.name} class={css(column, index)} style={places[index] === null ? undefined : { left: `${places[index]}px` }}>
                    {column.show ? column.show(row) : String(column.value(row) ?? "–")}
                  </td>
                ))}
              </tr>
            );
          })}
          {end < rows.length && <tr aria-hidden="true"><td colSpan={columns.length + 1} style={{ height: `${(rows.length - end) * ROW}px`, padding: 0, border: 0 }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

function Heading<Row>({ column, css, left, sort, onSort }: {
  column: Column<Row>; css: string; left: number | null; sort: readonly SortKey[]; onSort: (keys: SortKey[]) => void;
}) {
  const at = sort.findIndex((key) => key.column === column.name);
  const key = sort[at];
  return (
    <th class={css} scope="col" style={left === null ? undefined : { left: `${left}px` }} aria-sort={key ? (key.down ? "descending" : "ascending") : "none"}>
      <button title={`${column.title}: sort; with Shift after the others`} onClick={(event) => onSort(toggled(sort, column.name, event.shiftKey))}>
        <span class="clip name">{column.title}</span>
        {key && <span aria-hidden="true">{key.down ? "↓" : "↑"}{sort.length > 1 ? at + 1 : ""}</span>}
      </button>
    </th>
  );
}
