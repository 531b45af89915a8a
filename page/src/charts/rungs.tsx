// Where each trial of a search stands: a line for each trial, from rung to rung, coloured by what was decided.
import { useRef, useState } from "preact/hooks";
import { formatNumber } from "../format.ts";
import type { SearchDecision as Decision } from "../../generated/types.ts";
import { Canvas, type Pen, type Point } from "./canvas.tsx";
import { savePng } from "./files.ts";
import { cssColour } from "./palette.tsx";
import { linearTicks, logTicks, scale } from "./scales.ts";

const PAD = { left: 64, right: 20, top: 10, bottom: 30 };

const COLOURS: Record<string, string> = {
  promoted: "--good", completed: "--good", continued: "--run", created: "--idle", stopped: "--warn", paused: "--warn", copied: "--trial-3", failed: "--bad", closed: "--idle",
};

export function actionColour(action: string): string {
  return cssColour(COLOURS[action] ?? "--idle");
}

interface Lane {
  trial: number;
  number: number;
  decisions: Decision[];
}

export function lanes(decisions: readonly Decision[]): Lane[] {
  const found = new Map<number, Lane>();
  for (const decision of decisions) {
    if (decision.trial === null) continue;
    const lane = found.get(decision.trial) ?? { trial: decision.trial, number: decision.number ?? decision.trial, decisions: [] };
    lane.decisions.push(decision);
    found.set(decision.trial, lane);
  }
  return [...found.values()].sort((a, b) => a.number - b.number);
}

export function Rungs({ decisions, rungs, unit, chosen, onPick }: {
  decisions: readonly Decision[]; rungs: readonly number[]; unit: string; chosen: number | null; onPick: (trial: number) => void;
}) {
  const [hover, setHover] = useState<{ decision: Decision; point: Point } | null>(null);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const all = lanes(decisions);
  const row = Math.max(5, Math.min(22, 420 / Math.max(1, all.length)));
  const height = PAD.top + PAD.bottom + Math.max(120, row * all.length);
  const lengths = [...rungs, ...decisions.map((decision) => decision.batches ?? 0)].filter((length) => length > 0);
  const log = lengths.length > 0 && Math.max(...lengths) / Math.min(...lengths) > 8;
  const axis = scale(log ? Math.min(...lengths) / 2 : 0, lengths.length ? Math.max(...lengths) : 1, log);
  const xOf = (batches: number, width: number): number => PAD.left + Math.max(0, axis.place(batches) ?? 0) * (width - PAD.left - PAD.right);
  const yOf = (lane: number): number => PAD.top + (lane + 0.5) * row;
  const spots = (width: number): { decision: Decision; x: number; y: number }[] =>
    all.flatMap((lane, at) => lane.decisions.map((decision) => ({ decision, x: xOf(decision.batches ?? 0, width), y: yOf(at) })));
  const draw = ({ context, width }: Pen): void => {
    context.strokeStyle = cssColour("--line");
    context.fillStyle = cssColour("--ink-3");
    context.textAlign = "center";
    const ticks = rungs.length ? rungs : log ? logTicks(axis.low, axis.high) : linearTicks(axis.low, axis.high);
    for (const tick of ticks) {
      const x = xOf(tick, width);
      context.beginPath();
      context.moveTo(x, PAD.top);
      context.lineTo(x, height - PAD.bottom + 4);
      context.stroke();
      context.fillText(formatNumber(tick), x, height - PAD.bottom + 18);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    all.forEach((lane, at) => {
      const y = yOf(at);
      const end = lane.decisions.reduce((most, decision) => Math.max(most, decision.batches ?? 0), 0);
      context.fillStyle = cssColour(lane.trial === chosen ? "--ink" : "--ink-3");
      if (row >= 11) context.fillText(`trial ${lane.trial}`, PAD.left - 8, y);
      context.strokeStyle = lane.trial === chosen ? cssColour("--accent") : cssColour("--line-strong");
      context.lineWidth = lane.trial === chosen ? 3 : 1.5;
      context.beginPath();
      context.moveTo(PAD.left, y);
      context.lineTo(xOf(end, width), y);
      context.stroke();
    });
    for (const { decision, x, y } of spots(width)) {
      if (decision.action === "created") continue;
      context.fillStyle = context.strokeStyle = actionColour(decision.action);
      context.lineWidth = 2;
      context.beginPath();
      if (decision.action === "stopped") context.fillRect(x - 1.5, y - 5, 3, 10);
      else if (decision.action === "failed") {
        context.moveTo(x - 4, y - 4);
        context.lineTo(x + 4, y + 4);
        context.moveTo(x + 4, y - 4);
        context.lineTo(x - 4, y + 4);
        context.stroke();
      } else {
        context.arc(x, y, Math.min(5, row / 2.5), 0, 7);
        context.fill();
      }
    }
  };
  const find = (point: Point, width: number): Decision | null => {
    let best: Decision | null = null;
    let least = 14;
    for (const spot of spots(width)) {
      const distance = Math.hypot(spot.x - point.x, spot.y - point.y);
      if (distance <= least) [best, least] = [spot.decision, distance];
    }
    return best;
  };
  return (
    <figure class="chart" aria-label="Trials and rungs">
      <div class="plot">
        <Canvas height={height} label={`How far each of ${all.length} trials came, and where the search decided`} draw={draw} deps={[decisions, rungs, chosen]} canvas={(element) => void (canvas.current = element)}
          onMove={(point, width) => {
            const decision = find(point, width);
            setHover(decision ? { decision, point } : null);
          }}
          onLeave={() => setHover(null)} onClick={(point, width) => {
            const decision = find(point, width);
            if (decision?.trial != null) onPick(decision.trial);
          }} />
        {hover && <div class="tip" style={{ left: `${hover.point.x + 12}px`, top: `${Math.max(0, hover.point.y - 46)}px` }}><strong>trial {hover.decision.trial}</strong><br />{hover.decision.text}</div>}
      </div>
      <figcaption class="chart-foot"><span>{unit} →</span><span>● promoted or completed</span><span>▮ stopped</span><span>✕ failed</span><span>The list below has the same in words.</span><span class="chart-files"><button class="plain" onClick={() => canvas.current && savePng(canvas.current, "search")}>PNG</button></span></figcaption>
    </figure>
  );
}
