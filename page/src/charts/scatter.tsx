// The metric over one hyperparameter, a point for each trial.
import { useRef, useState } from "preact/hooks";
import { go } from "../address.ts";
import { shorten } from "../format.ts";
import { isFailed } from "../states.ts";
import type { TrialRow } from "../../generated/types.ts";
import type { Axis } from "./axes.ts";
import { Canvas, type Pen, type Point } from "./canvas.tsx";
import { colourIndex, cssColour, trialColours } from "./palette.tsx";
import { RowTable } from "./row_table.tsx";

const PAD = { left: 56, right: 16, top: 12, bottom: 34 };

export function Scatter({ rows, x, y, height = 220 }: { rows: readonly TrialRow[]; x: Axis; y: Axis; height?: number }) {
  const [hover, setHover] = useState<{ row: TrialRow; point: Point } | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const inset = x.kind === "names" ? 0.06 : 0.02;
  const spot = (row: TrialRow, width: number): Point | null => {
    const [across, up] = [x.place(row), y.place(row)];
    if (across === null) return null;
    const place = inset + across * (1 - 2 * inset);
    return { x: PAD.left + place * (width - PAD.left - PAD.right), y: up === null ? height - PAD.bottom : PAD.top + (1 - up) * (height - PAD.top - PAD.bottom) };
  };
  const draw = ({ context, width }: Pen): void => {
    const colours = trialColours();
    drawFrame(context, width, height, x, y, inset);
    for (const row of rows) {
      const point = spot(row, width);
      if (!point) continue;
      context.fillStyle = context.strokeStyle = colours[colourIndex(row.id)]!;
      const odd = y.place(row) === null || isFailed(row.state);
      context.lineWidth = hover?.row === row ? 3 : 2;
      context.beginPath();
      if (odd) { // A cross: failed, or its metric is not finite (then at the foot).
        context.moveTo(point.x - 4, point.y - 4);
        context.lineTo(point.x + 4, point.y + 4);
        context.moveTo(point.x + 4, point.y - 4);
        context.lineTo(point.x - 4, point.y + 4);
        context.stroke();
      } else {
        context.globalAlpha = rows.length > 300 ? 0.6 : 0.9;
        context.arc(point.x, point.y, hover?.row === row ? 6 : 3.5, 0, 7);
        context.fill();
        context.globalAlpha = 1;
      }
    }
  };
  const find = (point: Point, width: number): TrialRow | null => {
    let best: TrialRow | null = null;
    let least = 12;
    for (const row of rows) {
      const place = spot(row, width);
      const distance = place ? Math.hypot(place.x - point.x, place.y - point.y) : Infinity;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  };
  return (
    <figure class="chart" aria-label={`${y.title} over ${x.title}`}>
      <h3 class="clip name">{x.title}</h3>
      <div class="plot">
        <Canvas height={height} label={`${y.title} over ${x.title} of ${rows.length} trials`} draw={draw} deps={[rows, x, y, hover?.row]} canvas={(element) => void (canvas.current = element)}
          onMove={(point, width) => {
            const row = find(point, width);
            setHover(row ? { row, point } : null);
          }}
          onLeave={() => setHover(null)} onClick={() => hover && go(`/trials/${hover.row.id}`)} />
        {hover && <div class="tip" style={{ left: `${hover.point.x + 12}px`, top: `${Math.max(0, hover.point.y - 40)}px` }}><strong>trial {hover.row.id}</strong><br />{shorten(x.text(hover.row), 40)}: {y.text(hover.row)}</div>}
      </div>
      <RowTable rows={rows} axes={[x, y]} title={`${y.title} over ${x.title}`} canvas={() => canvas.current}><span>✕ failed or not finite</span></RowTable>
    </figure>
  );
}

export function drawFrame(context: CanvasRenderingContext2D, width: number, height: number, x: Axis, y: Axis, inset = 0): void {
  const [spanX, spanY] = [width - PAD.left - PAD.right, height - PAD.top - PAD.bottom];
  context.strokeStyle = cssColour("--line");
  context.fillStyle = cssColour("--ink-3");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of y.ticks) {
    const at = PAD.top + (1 - tick.place) * spanY;
    context.beginPath();
    context.moveTo(PAD.left, at);
    context.lineTo(width - PAD.right, at);
    context.stroke();
    context.fillText(shorten(tick.text, 9), PAD.left - 6, at);
  }
  context.textAlign = "center";
  for (const tick of x.ticks) {
    const at = PAD.left + (inset + tick.place * (1 - 2 * inset)) * spanX;
    context.beginPath();
    context.moveTo(at, PAD.top);
    context.lineTo(at, height - PAD.bottom);
    context.stroke();
    context.fillText(shorten(tick.text, 12), at, height - PAD.bottom + 14);
  }
}
