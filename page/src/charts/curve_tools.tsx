// The choices of a chart of curves, kept in the address: metric, axis, scales, smoothing, range.
import { joinRange, setParams, splitRange, useAddress } from "../address.ts";
import { Link, Segments } from "../ui/basics.tsx";
import type { CurveView } from "./curves.tsx";

const AXES = [["batches", "Batches"], ["epochs", "Epochs"], ["time", "Time"]] as const;

export function useCurveView(): CurveView {
  const { params } = useAddress();
  return {
    axis: params.get("axis") ?? "batches", log: params.get("log") === "1", xLog: params.get("xlog") === "1",
    smoothing: Math.min(0.99, Math.max(0, Number(params.get("smooth") ?? "0") || 0)), full: params.get("range") === "full", zoom: splitRange(params.get("x") ?? ""),
  };
}

export function zoomTo(range: [number, number] | null): void {
  setParams({ x: joinRange(range) }, false);
}

/** Says below a chart which of its curves is highlighted, and leads to its trial. */
export function Highlighted({ trial }: { trial: number }) {
  return <p class="row"><span>Trial {trial} is highlighted.</span><Link class="button" to={`/trials/${trial}`}>Open trial {trial}</Link><button onClick={() => setParams({ trial: null })}>Show all alike</button></p>;
}

/** Highlights the trial of a curve that was clicked; a second click shows all alike. */
export function highlight(trial: number, highlighted: number | null): void {
  setParams({ trial: trial === highlighted ? null : String(trial) });
}

export function CurveTools({ view, metrics, metric, axes }: {
  view: CurveView; metrics?: readonly string[]; metric?: string; axes?: readonly string[];
}) {
  const offered = AXES.filter(([name]) => !axes || axes.includes(name));
  return (
    <div class="chart-tools">
      {metrics && <MetricSelect metrics={metrics} metric={metric ?? ""} />}
      {offered.length > 1
        ? <Segments label="Axis" value={view.axis} options={offered} onChange={(axis) => setParams({ axis: axis === "batches" ? null : axis, x: null })} />
        : <span class="quiet">over {view.axis}</span>}
      <label class="field"><input type="checkbox" checked={view.log} onChange={() => setParams({ log: view.log ? null : "1" })} />log y</label>
      <label class="field"><input type="checkbox" checked={view.xLog} onChange={() => setParams({ xlog: view.xLog ? null : "1" })} />log x</label>
      <label class="field"><input type="checkbox" checked={view.full} onChange={() => setParams({ range: view.full ? null : "full" })} />full range</label>
      <label class="field">Smoothing <input type="range" min="0" max="0.99" step="0.01" value={view.smoothing} onInput={(event) => setParams({ smooth: event.currentTarget.value === "0" ? null : event.currentTarget.value })} /> <span class="number">{view.smoothing.toFixed(2)}</span></label>
    </div>
  );
}

export function MetricSelect({ metrics, metric }: { metrics: readonly string[]; metric: string }) {
  const groups = [...new Set(metrics.map((one) => one.split("/", 1)[0] ?? ""))];
  return (
    <label class="field">Metric
      <select value={metric} onChange={(event) => setParams({ metric: event.currentTarget.value })}>
        {groups.map((group) => (
          <optgroup key={group} label={group}>
            {metrics.filter((one) => one.startsWith(`${group}/`)).map((one) => <option key={one} value={one}>{one.slice(group.length + 1, group.length + 80)}</option>)}
          </optgroup>
        ))}
      </select>
    </label>
  );
}
