// Two hyperparameters against each other, coloured by the best metric of each cell.
import { useRef, useState } from "preact/hooks";
import { formatNumber, plural, shorten, toNumber } from "../format.ts";
import type { TrialRow } from "../../generated/types.ts";
import { Link } from "../ui/basics.tsx";
import type { Axis } from "./axes.ts";
import { Canvas, type Pen, type Point } from "./canvas.tsx";
import { csv, fileName, savePng, saveText } from "./files.ts";
import { cssColour, heatColours } from "./palette.tsx";

const PAD = { left: 80, right: 12, top: 8, bottom: 30 };
const BINS = 8;

export interface HeatCell {
  column: number;
  row: number;
  best: number | null;
  trials: TrialRow[];
}

function bins(axis: Axis): number {
  return axis.steps ?? BINS;
}

export function binOf(axis: Axis, row: TrialRow): number | null {
  const place = axis.place(row);
  if (place === null) return null;
  const count = bins(axis);
  return axis.steps !== null ? Math.round(place * (count - 1)) : Math.min(count - 1, Math.max(0, Math.floor(place * count)));
}

/** The cells that have trials, with the best finite metric of each. */
export function heatCells(rows: readonly TrialRow[], x: Axis, y: Axis): HeatCell[] {
  const cells = new Map<string, HeatCell>();
  for (const trial of rows) {
    const [column, row] = [binOf(x, trial), binOf(y, trial)];
    if (column === null || row === null) continue;
    const cell = cells.get(`${column},${row}`) ?? { column, row, best: null, trials: [] };
    const metric = toNumber(trial.best);
    if (metric !== null && Number.isFinite(metric)) {
      cell.best = cell.best === null ? metric : trial.smaller_is_better ? Math.min(cell.best, metric) : Math.max(cell.best, metric);
    }
    cell.trials.push(trial);
    cells.set(`${column},${row}`, cell);
  }
  return [...cells.values()];
}

/** What the trials of a cell have in common on an axis: a value, or the numbers between which theirs lie. */
function extent(axis: Axis, bin: number, cell: HeatCell): [string | number | null, string | number | null] {
  if (axis.steps !== null || axis.at === null) {
    const value = axis.value(cell.trials[0]!);
    return [value, value];
  }
  return [axis.at(bin / bins(axis)), axis.at((bin + 1) / bins(axis))];
}

function extentText(axis: Axis, bin: number, cell: HeatCell): string {
  const [from, to] = extent(axis, bin, cell);
  return from === to ? axis.text(cell.trials[0]!) : `${formatNumber(from as number)} to ${formatNumber(to as number)}`;
}

export function heatCsv(cells: readonly HeatCell[], x: Axis, y: Axis): string {
  const ends = (axis: Axis): string[] => [`${axis.title} from`, `${axis.title} to`];
  return csv([
    [...ends(x), ...ends(y), "best", "trials"],
    ...cells.map((cell) => [...extent(x, cell.column, cell), ...extent(y, cell.row, cell), cell.best, cell.trials.map((trial) => trial.id).join(" ")]),
  ]);
}

export function HeatMap({ rows, x, y, height = 320 }: { rows: readonly TrialRow[]; x: Axis; y: Axis; height?: number }) {
  const [hover, setHover] = useState<{ cell: HeatCell; point: Point } | null>(null);
  const [table, setTable] = useState(false);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const cells = heatCells(rows, x, y);
  const known = cells.map((cell) => cell.best).filter((best): best is number => best !== null);
  const [low, high] = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
  const smaller = rows[0]?.smaller_is_better ?? true;
  const share = (best: number): number => (high > low ? (smaller ? (high - best) / (high - low) : (best - low) / (high - low)) : 1);
  const box = (width: number): { wide: number; high: number } => ({ wide: (width - PAD.left - PAD.right) / bins(x), high: (height - PAD.top - PAD.bottom) / bins(y) });
  const draw = ({ context, width }: Pen): void => {
    const heat = heatColours();
    const size = box(width);
    for (const cell of cells) {
      const left = PAD.left + cell.column * size.wide;
      const top = height - PAD.bottom - (cell.row + 1) * size.high;
      context.fillStyle = cell.best === null ? cssColour("--bad-soft") : heat(share(cell.best));
      context.fillRect(left + 1, top + 1, size.wide - 2, size.high - 2);
      if (cell === hover?.cell) {
        context.strokeStyle = cssColour("--ink");
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, size.wide - 2, size.high - 2);
      }
    }
    context.fillStyle = cssColour("--ink-3");
    context.textBaseline = "middle";
    const at = (axis: Axis, place: number): number => (axis.steps !== null ? (place * (bins(axis) - 1) + 0.5) / bins(axis) : place);
    context.textAlign = "right";
    for (const tick of y.ticks) context.fillText(shorten(tick.text, 12), PAD.left - 6, PAD.top + (1 - at(y, tick.place)) * (height - PAD.top - PAD.bottom));
    context.textAlign = "center";
    for (const tick of x.ticks) context.fillText(shorten(tick.text, 10), PAD.left + at(x, tick.place) * (width - PAD.left - PAD.right), height - PAD.bottom + 14);
  };
  return (
    <figure class="chart" aria-label={`Heat map of ${x.title} and ${y.title}`}>
      <div class="plot">
        <Canvas height={height} label={`Best metric by ${x.title} and ${y.title}`} draw={draw} deps={[rows, x, y, hover?.cell]} canvas={(element) => void (canvas.current = element)}
          onMove={(point, width) => {
            const size = box(width);
            const [column, row] = [Math.floor((point.x - PAD.left) / size.wide), Math.floor((height - PAD.bottom - point.y) / size.high)];
            const cell = cells.find((one) => one.column === column && one.row === row);
            setHover(cell ? { cell, point } : null);
          }} onLeave={() => setHover(null)} />
        {hover && <div class="tip" style={{ left: `${hover.point.x + 12}px`, top: `${Math.max(0, hover.point.y - 40)}px` }}><strong>{hover.cell.best === null ? "no finite metric" : formatNumber(hover.cell.best)}</strong><br />{plural(hover.cell.trials.length, "trial")}: {hover.cell.trials.slice(0, 6).map((trial) => trial.id).join(", ")}</div>}
      </div>
      <figcaption class="chart-foot">
        <span>worst <span class="heat" aria-hidden="true" /> best</span>
        <span>best {known.length ? formatNumber(smaller ? low : high) : "–"}, worst {known.length ? formatNumber(smaller ? high : low) : "–"} of the cells</span>
        <span class="chart-files">
        <button class="plain" onClick={() => canvas.current && savePng(canvas.current, `${y.title} and ${x.title}`)}>PNG</button>
        <button class="plain" onClick={() => saveText(heatCsv(cells, x, y), fileName(`${x.title}-${y.title}`, "csv"))}>CSV</button>
        <button class="plain" aria-expanded={table} onClick={() => setTable(!table)}>Table</button>
        </span>
      </figcaption>
      {table && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
          <thead><tr><th>{x.title}</th><th>{y.title}</th><th class="right">Best</th><th>Trials</th></tr></thead>
          <tbody>{cells.map((cell) => <tr key={`${cell.column},${cell.row}`}><td>{extentText(x, cell.column, cell)}</td><td>{extentText(y, cell.row, cell)}</td><td class="right">{formatNumber(cell.best)}</td><td>{cell.trials.slice(0, 8).map((trial) => <><Link to={`/trials/${trial.id}`}>{trial.id}</Link>{" "}</>)}</td></tr>)}</tbody>
        </table></div>
      )}
    </figure>
  );
}
