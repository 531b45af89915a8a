// Marks on top of the lines: non-finite values, outliers at the edge, ends of failed trials, attempts.
import type uPlot from "uplot";
import { cssColour } from "./palette.tsx";
import type { PlotProps } from "./plot.tsx";
import type { Outlier } from "./plot_data.ts";

interface Look {
  panel: string;
  warn: string;
  font: string;
}

export function drawMarks(plot: uPlot, props: PlotProps, colour: (trial: number) => string): void {
  const ratio = devicePixelRatio || 1;
  const { ctx, bbox } = plot;
  const look = { panel: cssColour("--panel"), warn: cssColour("--warn"), font: cssColour("--font") };
  const x = (value: number): number => plot.valToPos(value, "x", true);
  const inside = (value: number): boolean => value >= props.xRange[0] && value <= props.xRange[1];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * ratio, bbox.top - 12 * ratio, bbox.width + 12 * ratio, bbox.height + 18 * ratio);
  ctx.clip();
  for (const attempt of props.attempts) if (inside(attempt.x)) drawAttempt(ctx, x(attempt.x), bbox, ratio, attempt.label, look);
  props.series.forEach((one) => {
    if (props.highlighted !== null && props.highlighted !== one.trial) return;
    const own = colour(one.trial);
    const last: Record<string, number> = {};
    for (const mark of one.curve.marks) {
      if (!inside(mark.x)) continue;
      const place = x(mark.x);
      const room = place - (last[mark.kind] ?? -Infinity) > 11 * ratio;
      drawNonFinite(ctx, place, bbox, ratio, mark.kind, own, room, look);
      if (room) last[mark.kind] = place;
    }
    if (one.curve.failed && one.curve.last && inside(one.curve.last.x)) {
      const end = Math.min(props.yRange[1], Math.max(props.yRange[0], one.curve.last.y));
      drawCross(ctx, x(one.curve.last.x), plot.valToPos(end, "y", true), ratio, own, look);
    }
  });
  for (const outlier of marked(props.outliers, (value) => (inside(value) ? Math.round(x(value)) : null))) {
    const edge = outlier.side > 0 ? bbox.top : bbox.top + bbox.height;
    drawTriangle(ctx, x(outlier.x), edge, outlier.side > 0 ? -1 : 1, ratio, colour(props.series[outlier.series]!.trial));
  }
  ctx.restore();
}

/** One outlier for each pixel, side and series: others would be drawn on top of each other. `pixel` is null outside of the chart. */
export function marked(outliers: readonly Outlier[], pixel: (x: number) => number | null): Outlier[] {
  const seen = new Set<string>();
  return outliers.filter((outlier) => {
    const at = pixel(outlier.x);
    const place = `${at} ${outlier.side} ${outlier.series}`;
    if (at === null || seen.has(place)) return false;
    seen.add(place);
    return true;
  });
}

/** Draws NaN as a box with "N" at the foot of the chart, an infinity as "∞" at its top or foot; only a tick without `room`. */
function drawNonFinite(ctx: CanvasRenderingContext2D, x: number, bbox: uPlot.BBox, ratio: number, kind: string, colour: string, room: boolean, look: Look): void {
  const half = 5 * ratio;
  const y = kind === "Infinity" ? bbox.top + half : bbox.top + bbox.height - half;
  ctx.fillStyle = colour;
  if (!room) {
    ctx.fillRect(x - ratio, y + (kind === "Infinity" ? -half : half - 3 * ratio), 2 * ratio, 3 * ratio);
    return;
  }
  ctx.fillRect(x - half, y - half, 2 * half, 2 * half);
  ctx.fillStyle = look.panel;
  ctx.font = `700 ${8 * ratio}px ${look.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(kind === "NaN" ? "N" : "∞", x, y + ratio * 0.5);
}

function drawTriangle(ctx: CanvasRenderingContext2D, x: number, y: number, direction: number, ratio: number, colour: string): void {
  const size = 5 * ratio;
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.moveTo(x, y + direction * size);
  ctx.lineTo(x - size * 0.8, y - direction * size * 0.4);
  ctx.lineTo(x + size * 0.8, y - direction * size * 0.4);
  ctx.fill();
}

function drawCross(ctx: CanvasRenderingContext2D, x: number, y: number, ratio: number, colour: string, look: Look): void {
  const size = 5 * ratio;
  for (const [style, width] of [[look.panel, 5], [colour, 2.5]] as const) {
    ctx.strokeStyle = style;
    ctx.lineWidth = width * ratio;
    ctx.beginPath();
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x + size, y - size);
    ctx.lineTo(x - size, y + size);
    ctx.stroke();
  }
}

function drawAttempt(ctx: CanvasRenderingContext2D, x: number, bbox: uPlot.BBox, ratio: number, label: string, look: Look): void {
  ctx.strokeStyle = look.warn;
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.fillStyle = look.warn;
  ctx.font = `${10 * ratio}px ${look.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.fillText(label, x + 4 * ratio, bbox.top + 2 * ratio);
}
