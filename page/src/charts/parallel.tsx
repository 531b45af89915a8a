// Parallel coordinates: one axis for each hyperparameter and the metric; brushes filter everything else.
import { useRef, useState } from "preact/hooks";
import { formatCount, shorten } from "../format.ts";
import { isFailed } from "../states.ts";
import type { TrialRow } from "../../generated/types.ts";
import { brushText, METRIC_AXIS, type Axis } from "./axes.ts";
import { Canvas, type Pen, type Point } from "./canvas.tsx";
import { cssColour, heatColours } from "./palette.tsx";
import { RowTable } from "./row_table.tsx";

const TOP = 34;
const BOTTOM = 14;
const SIDE = 70;

export function Parallel({ rows, axes, brushes, only, onBrush, height = 320 }: {
  rows: readonly TrialRow[]; axes: readonly Axis[]; brushes: ReadonlyMap<string, [number, number]>; only: ReadonlySet<number> | null;
  onBrush: (text: string) => void; height?: number;
}) {
  const [drag, setDrag] = useState<{ axis: Axis; from: number; to: number } | null>(null);
  const [hover, setHover] = useState<{ row: TrialRow; point: Point } | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const span = height - TOP - BOTTOM;
  const xOf = (at: number, width: number): number => (axes.length === 1 ? width / 2 : SIDE + (at * (width - 2 * SIDE)) / (axes.length - 1));
  const yOf = (place: number): number => TOP + (1 - place) * span;
  const placeOf = (y: number): number => Math.min(1, Math.max(0, 1 - (y - TOP) / span));
  const metric = axes.find((axis) => axis.name === METRIC_AXIS);

  const axisAt = (point: Point, width: number): Axis | null => {
    const at = axes.findIndex((_, index) => Math.abs(xOf(index, width) - point.x) < 22);
    return axes[at] ?? null;
  };
  const finish = (): void => {
    if (!drag) return;
    const next = new Map<string, [number, number]>(brushes);
    const [low, high] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if (high - low < 0.02) next.delete(drag.axis.name);
    else next.set(drag.axis.name, [low - 0.004, high + 0.004]);
    setDrag(null);
    onBrush(brushText(next));
  };
  const nearestRow = (point: Point, width: number): TrialRow | null => {
    const step = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 1;
    const left = Math.min(axes.length - 2, Math.max(0, Math.floor((point.x - SIDE) / step)));
    const share = (point.x - xOf(left, width)) / step;
    let best: TrialRow | null = null;
    let least = 14;
    for (const row of rows) {
      if (only && !only.has(row.id)) continue;
      const [from, to] = [axes[left]?.place(row), axes[left + 1]?.place(row)];
      if (from == null || to == null) continue;
      const distance = Math.abs(yOf(from + (to - from) * share) - point.y);
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  };

  const draw = (pen: Pen): void => {
    const { context, width } = pen;
    const heat = heatColours();
    const line = (row: TrialRow): void => {
      context.beginPath();
      let started = false;
      axes.forEach((axis, at) => {
        const place = axis.place(row);
        if (place === null) return void (started = false); // A missing value interrupts the line.
        if (started) context.lineTo(xOf(at, width), yOf(place));
        else context.moveTo(xOf(at, width), yOf(place));
        started = true;
      });
      context.stroke();
    };
    context.lineWidth = rows.length > 200 ? 0.8 : 1.3;
    for (const row of rows) {
      const out = only !== null && !only.has(row.id);
      const place = metric?.place(row) ?? null;
      context.strokeStyle = out ? cssColour("--line") : place === null ? cssColour("--bad") : heat(row.smaller_is_better ? 1 - place : place);
      context.globalAlpha = out ? 0.5 : rows.length > 200 ? 0.55 : 0.85;
      context.setLineDash(isFailed(row.state) ? [4, 4] : []);
      line(row);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (hover) {
      context.strokeStyle = cssColour("--ink");
      context.lineWidth = 2.5;
      line(hover.row);
    }
    axes.forEach((axis, at) => drawAxis(context, axis, xOf(at, width), at === axes.length - 1));
  };

  const drawAxis = (context: CanvasRenderingContext2D, axis: Axis, x: number, last: boolean): void => {
    context.strokeStyle = cssColour("--line-strong");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, yOf(0));
    context.lineTo(x, yOf(1));
    context.stroke();
    context.fillStyle = cssColour("--ink");
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `600 11px ${cssColour("--font")}`;
    context.fillText(shorten(axis.title, 22), x, 14);
    context.font = `11px ${cssColour("--font")}`;
    context.textAlign = last ? "left" : "right";
    for (const tick of axis.ticks) {
      const [text, place] = [shorten(tick.text, 12), x + (last ? 7 : -7)];
      context.strokeStyle = cssColour("--panel");
      context.lineWidth = 6;
      context.strokeText(text, place, yOf(tick.place));
      context.fillStyle = cssColour("--ink-2");
      context.fillText(text, place, yOf(tick.place));
    }
    const brush = drag?.axis === axis ? ([Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] as const) : brushes.get(axis.name);
    if (!brush) return;
    context.fillStyle = cssColour("--accent");
    context.globalAlpha = 0.3;
    context.fillRect(x - 7, yOf(brush[1]), 14, yOf(brush[0]) - yOf(brush[1]));
    context.globalAlpha = 1;
  };

  return (
    <figure class="chart" aria-label="Parallel coordinates">
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Axes"><div class="plot" style={{ minWidth: `${2 * SIDE + 84 * (axes.length - 1)}px` }}>
        <Canvas height={height} label={`Parallel coordinates of ${rows.length} trials over ${axes.map((axis) => axis.title).join(", ")}`} draw={draw} deps={[rows, axes, brushes, only, drag, hover?.row]}
          canvas={(element) => void (canvas.current = element)}
          onDown={(point, width) => {
            const axis = axisAt(point, width);
            if (axis) setDrag({ axis, from: placeOf(point.y), to: placeOf(point.y) });
          }}
          onMove={(point, width) => {
            if (drag) return setDrag({ ...drag, to: placeOf(point.y) });
            const row = nearestRow(point, width);
            setHover(row ? { row, point } : null);
          }}
          grabs={(point, width) => axisAt(point, width) !== null} onCancel={() => setDrag(null)} onUp={finish} onLeave={() => setHover(null)} />
        {hover && !drag && <div class="tip" style={{ left: `${hover.point.x + 14}px`, top: `${Math.max(0, hover.point.y - 40)}px` }}><strong>trial {hover.row.id}</strong><br />{axes.map((axis) => `${shorten(axis.title, 18)} ${shorten(axis.text(hover.row), 18)}`).join(", ")}</div>}
      </div></div>
      <RowTable rows={rows} axes={axes} title="parallel coordinates" canvas={() => canvas.current}>
        <span>{only ? `${formatCount(only.size)} of ${formatCount(rows.length)} trials` : "Drag along an axis to filter the curves, the table, the search and the checkpoints."} Dashed: failed.</span>
        <span>worst <span class="heat" aria-hidden="true" /> best</span>
        <BrushInputs axes={axes} brushes={brushes} onBrush={onBrush} />
        {brushes.size > 0 && <button class="plain" onClick={() => onBrush("")}>Clear the brushes</button>}
      </RowTable>
    </figure>
  );
}

/** The same brushes without a mouse: two shares of an axis. */
function BrushInputs({ axes, brushes, onBrush }: {
  axes: readonly Axis[]; brushes: ReadonlyMap<string, [number, number]>; onBrush: (text: string) => void;
}) {
  const [name, setName] = useState(axes[0]?.name ?? "");
  const [low, high] = brushes.get(name) ?? [0, 1];
  const set = (range: [number, number]): void => {
    const next = new Map<string, [number, number]>(brushes);
    if (range[0] <= 0 && range[1] >= 1) next.delete(name);
    else if (range[0] < range[1]) next.set(name, range);
    onBrush(brushText(next));
  };
  const percent = (text: string): number => Math.min(100, Math.max(0, Number(text) || 0)) / 100;
  return (
    <details>
      <summary>Brush by keyboard</summary>
      <span class="row">
        <select aria-label="Axis to brush" value={name} onChange={(event) => setName(event.currentTarget.value)}>{axes.map((axis) => <option key={axis.name} value={axis.name}>{shorten(axis.title, 40)}</option>)}</select>
        <label class="field">from %<input type="number" min="0" max="100" value={Math.round(low * 100)} onChange={(event) => set([percent(event.currentTarget.value), high])} /></label>
        <label class="field">to %<input type="number" min="0" max="100" value={Math.round(high * 100)} onChange={(event) => set([low, percent(event.currentTarget.value)])} /></label>
      </span>
    </details>
  );
}
