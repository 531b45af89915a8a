// The table behind a chart of trials, and its CSV file.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { TrialRow } from "../../generated/types.ts";
import { Link } from "../ui/basics.tsx";
import type { Axis } from "./axes.ts";
import { csv, fileName, savePng, saveText } from "./files.ts";

const MOST = 500;

export function toCsv(rows: readonly TrialRow[], axes: readonly Axis[]): string {
  return csv([["trial", "state", ...axes.map((axis) => axis.title)], ...rows.map((row) => [row.id, row.state, ...axes.map((axis) => axis.value(row))])]);
}

/** The caption of a chart of trials: remarks, its files, and the table behind it. */
export function RowTable({ rows, axes, title, canvas, children }: {
  rows: readonly TrialRow[]; axes: readonly Axis[]; title: string; canvas: () => HTMLCanvasElement | null; children: ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  return (
    <figcaption class="chart-table">
      <div class="chart-foot">
        {children}
        <span class="chart-files">
        <button class="plain" onClick={() => {
          const drawn = canvas();
          if (drawn) savePng(drawn, title);
        }}>PNG</button>
        <button class="plain" onClick={() => saveText(toCsv(rows, axes), fileName(title, "csv"))}>CSV</button>
        <button class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>Table</button>
        </span>
      </div>
      {open && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={`Values of the ${title}`}>
          <table class="sheet">
            <thead><tr><th>Trial</th><th>State</th>{axes.map((axis) => <th key={axis.name} class="right">{axis.title}</th>)}</tr></thead>
            <tbody>{rows.slice(0, MOST).map((row) => <tr key={row.id}><td><Link to={`/trials/${row.id}`}>{row.id}</Link></td><td>{row.state}</td>{axes.map((axis) => <td key={axis.name} class="right">{axis.text(row)}</td>)}</tr>)}</tbody>
          </table>
          {rows.length > MOST && <p class="quiet">The first {MOST} of {rows.length}; the CSV file has all.</p>}
        </div>
      )}
    </figcaption>
  );
}
