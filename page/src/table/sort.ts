// Sorting by several columns; rows without a value come last in both directions.
import type { Cell } from "./filter.ts";

export interface SortKey {
  column: string;
  down: boolean;
}

/** "-metric,lr" <-> sort keys; a minus means downwards. Commas in names are escaped by the address's lists. */
export function parseSort(items: readonly string[]): SortKey[] {
  return items.filter((item) => item !== "" && item !== "-")
    .map((item) => (item.startsWith("-") ? { column: item.slice(1), down: true } : { column: item, down: false }));
}

export function sortItems(keys: readonly SortKey[]): string[] {
  return keys.map((key) => (key.down ? "-" : "") + key.column);
}

/** Returns the sort keys after a click on a heading: ascending, descending, off; with `add` (Shift) the other keys stay. */
export function toggled(keys: readonly SortKey[], column: string, add: boolean): SortKey[] {
  const present = keys.find((key) => key.column === column);
  const others = add ? keys.filter((key) => key.column !== column) : [];
  if (!present) return [...others, { column, down: false }];
  if (!present.down) return add ? keys.map((key) => (key === present ? { column, down: true } : key)) : [{ column, down: true }];
  return others;
}

function isMissing(cell: Cell): boolean {
  return cell === null || cell === undefined || cell === "" || (typeof cell === "number" && Number.isNaN(cell))
    || (Array.isArray(cell) && cell.length === 0);
}

export function compareCells(left: Cell, right: Cell): number {
  if (typeof left === "number" && typeof right === "number") return left - right;
  if (typeof left === "number") return -1;
  if (typeof right === "number") return 1;
  return String(left) < String(right) ? -1 : String(left) > String(right) ? 1 : 0;
}

export function sortRows<Row>(rows: readonly Row[], keys: readonly SortKey[],
                              value: (row: Row, column: string) => Cell): Row[] {
  if (keys.length === 0) return [...rows];
  const decorated = rows.map((row, order) => ({ row, order, cells: keys.map((key) => value(row, key.column)) }));
  decorated.sort((a, b) => {
    for (let at = 0; at < keys.length; at++) {
      const [left, right] = [a.cells[at], b.cells[at]];
      const [noLeft, noRight] = [isMissing(left), isMissing(right)];
      if (noLeft || noRight) {
        if (noLeft !== noRight) return noLeft ? 1 : -1;
        continue;
      }
      const order = compareCells(left, right);
      if (order !== 0) return keys[at]!.down ? -order : order;
    }
    return a.order - b.order;
  });
  return decorated.map((one) => one.row);
}
