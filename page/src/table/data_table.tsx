// A table with its filter, columns, sorting and selection, all of which are kept in the address.
import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { joinList, joinNumbers, setParams, splitList, splitNumbers, useAddress } from "../address.ts";
import { formatCount, plural } from "../format.ts";
import { Empty } from "../ui/basics.tsx";
import { ColumnMenu } from "./column_menu.tsx";
import type { Column } from "./columns.tsx";
import type { Names } from "./complete.ts";
import { FilterBox } from "./filter_box.tsx";
import { parseFilter, rowTest, type Cell, type Filter } from "./filter.ts";
import { parseSort, sortItems, sortRows, type SortKey } from "./sort.ts";
import { Table } from "./table.tsx";

const MOST_VALUES = 200;

export interface DataTableProps<Row> {
  label: string;
  noun: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  defaults: readonly string[];
  id: (row: Row) => number;
  address: (row: Row) => string;
  texts: (row: Row) => string;
  example: string;
  /** Rows that a chart's brush leaves; null where none is set. */
  only?: ReadonlySet<number> | null;
  tools?: ComponentChildren;
  /** A summary of the rows that match the filter. */
  foot?: (shown: readonly Row[]) => ComponentChildren;
  empty: ComponentChildren;
  /** Ways to copy the rows that are shown: null where none is filtered out. */
  copy?: (ids: number[] | null) => ComponentChildren;
  actions?: (ids: number[], rows: Row[]) => ComponentChildren;
  onCompare?: (ids: number[]) => void;
}

/** The names that a filter or a sort order of the address uses: their metrics have to be requested. */
export function namesInUse(params: URLSearchParams, columns: readonly string[]): string[] {
  const sort = parseSort(splitList(params.get("sort") ?? "")).map((key) => key.column);
  const words = (params.get("q") ?? "").match(/"(?:\\.|[^"])*"|[^\s()<>=!~,]+/g) ?? [];
  return [...columns, ...sort, ...words.map((word) => word.replace(/^"|"$/g, ""))];
}

/** The ids of rows that are selected, and those of them that are shown: actions are on all of them. */
export function selection(selected: ReadonlySet<number>, rows: readonly number[], shown: readonly number[]): { ids: number[]; visible: number[] } {
  return { ids: rows.filter((id) => selected.has(id)), visible: shown.filter((id) => selected.has(id)) };
}

export function DataTable<Row>(props: DataTableProps<Row>) {
  const { rows, columns, id, texts } = props;
  const { params } = useAddress();
  const named = useMemo(() => new Map(columns.map((column) => [column.name, column])), [columns]);
  const chosen = params.has("cols") ? splitList(params.get("cols")!) : [...props.defaults];
  const pinned = Math.min(Number(params.get("pin") ?? "1") || 0, chosen.length);
  const shown = chosen.map((name) => named.get(name)).filter((column) => column !== undefined);
  const sort = parseSort(splitList(params.get("sort") ?? ""));
  const query = params.get("q") ?? "";
  const parsed = useMemo(() => parseFilter(query, (name) => named.has(name)), [query, named]);
  // While a filter has a mistake the last one without a mistake stays: otherwise actions would concern all rows.
  const valid = useRef<{ query: string; filter: Filter }>({ query: "", filter: { kind: "all" } });
  if (parsed.filter) valid.current = { query, filter: parsed.filter };
  const { filter } = valid.current;
  const notAll = parsed.mistake && "The filter has a mistake: correct it before you select all rows.";
  const value = (row: Row, name: string): Cell => named.get(name)?.value(row);
  const selected = useMemo(() => new Set(splitNumbers(params.get("sel") ?? "")), [params.get("sel")]);
  const baselines = useMemo(() => new Set(splitNumbers(params.get("base") ?? "")), [params.get("base")]);

  const result = useMemo(() => {
    const test = rowTest(filter, value, texts);
    const only = props.only;
    const left = rows.filter((row) => !baselines.has(id(row)) && (!only || only.has(id(row))) && test(row));
    return [...rows.filter((row) => baselines.has(id(row))), ...sortRows(left, sort, value)];
  }, [rows, filter, named, params.get("sort"), props.only, baselines]);

  const names = useMemo((): Names => ({
    names: columns.map((column) => ({
      name: column.name, hint: column.group,
      values: () => column.right ? [] : [...new Set(rows.slice(0, 5000).flatMap((row) => {
        const cell = column.value(row);
        return Array.isArray(cell) ? (cell as string[]) : cell === null || cell === undefined ? [] : [String(cell)];
      }))].slice(0, MOST_VALUES),
    })),
  }), [columns, rows]);

  const onSort = (keys: SortKey[]): void => setParams({ sort: joinList(sortItems(keys)) });
  const onSelect = (ids: Set<number>): void => setParams({ sel: joinNumbers(ids) });
  const onColumns = (list: string[], pin: number): void =>
    setParams({ cols: joinList(list) === joinList(props.defaults) ? null : joinList(list), pin: pin === 1 ? null : String(pin) });
  const chosenRows = rows.filter((row) => selected.has(id(row)));
  const { ids, visible } = useMemo(() => selection(selected, rows.map(id), result.map(id)), [selected, rows, result]);
  const hidden = ids.length - visible.length;
  const allBase = ids.length > 0 && ids.every((one) => baselines.has(one));
  return (
    <section class="panel">
      <div class="toolbar">
        <FilterBox value={query} onChange={(text) => setParams({ q: text })} names={names} mistake={parsed.mistake} meanwhile={valid.current.query ? `Until then, ${valid.current.query} applies.` : "Until then, all rows are shown."} example={props.example} />
        {props.tools}
        {result.length > 0 && props.copy?.(result.length === rows.length ? null : result.map(id))}
        <ColumnMenu all={columns} chosen={chosen} pinned={pinned} onChange={onColumns} />
      </div>
      {rows.length > 0 && <div class="selection">
        {ids.length === 0 ? (
          <span class="quiet">Select {props.noun}s to compare, pin or change them.</span>
        ) : (
          <div class="chosen-bar" role="region" aria-label="Selected rows">
            <strong>{plural(ids.length, props.noun)} selected</strong>
            {hidden > 0 && <span role="status">{hidden === ids.length ? "all" : formatCount(hidden)} of them not shown by the filter</span>}
            {hidden > 0 && <button onClick={() => onSelect(new Set(visible))}>Unselect {hidden === 1 ? "it" : "those"}</button>}
            {props.onCompare && <button class="main" onClick={() => props.onCompare!(ids)}>Compare</button>}
            <button onClick={() => {
              const next = new Set(baselines);
              for (const one of ids) if (allBase) next.delete(one); else next.add(one);
              setParams({ base: joinNumbers(next) });
            }}>{allBase ? "Unpin" : "Pin on top"}</button>
            {props.actions?.(ids, chosenRows)}
            <span class="grow" />
            <button class="plain" onClick={() => onSelect(new Set())}>Clear</button>
          </div>
        )}
      </div>}
      {rows.length === 0 ? props.empty : result.length === 0 ? (
        <Empty title={`No ${props.noun} matches`}>
          <p>{plural(rows.length, props.noun)} without the filter.</p>
          <div class="row"><button onClick={() => setParams({ q: null })}>Clear the filter</button></div>
        </Empty>
      ) : (
        <Table label={props.label} rows={result} columns={shown} pinned={pinned} id={id} address={props.address} sort={sort} onSort={onSort}
          selected={selected} onSelect={onSelect} baselines={baselines} notAll={notAll} {...(props.onCompare ? { onCompare: () => ids.length && props.onCompare!(ids) } : {})} />
      )}
      <div class="table-foot row">
        <span aria-live="polite">{result.length === rows.length ? plural(rows.length, props.noun) : `${plural(result.length, props.noun)} of ${formatCount(rows.length)}`}</span>
        {props.foot?.(result)}
      </div>
    </section>
  );
}
