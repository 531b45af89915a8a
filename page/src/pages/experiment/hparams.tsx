// How the metric depends on hyperparameters: a scatter plot for each, a heat map of two.
import { useMemo } from "preact/hooks";
import { setParams, useAddress } from "../../address.ts";
import { METRIC_AXIS, metricAxis } from "../../charts/axes.ts";
import { HeatMap } from "../../charts/heatmap.tsx";
import { Parallel } from "../../charts/parallel.tsx";
import { Scatter } from "../../charts/scatter.tsx";
import { Empty, Panel } from "../../ui/basics.tsx";
import type { Shared } from "../experiment.tsx";
import { AxesMenu } from "./axes_menu.tsx";

export function HparamsTab({ shared }: { shared: Shared }) {
  const { params } = useAddress();
  const log = params.get("log") === "1";
  const { rows, all, axes, axisOf, only, brushes } = shared;
  const hparams = axes.filter((axis) => axis.name !== METRIC_AXIS);
  const left = useMemo(() => (only ? rows.filter((row) => only.has(row.id)) : rows), [rows, only]);
  const metric = useMemo(() => metricAxis(left, log), [left, log]);
  const [hx, hy] = [params.get("hx") ?? "", params.get("hy") ?? ""];
  const x = useMemo(() => (all.includes(hx) ? axisOf(hx) : hparams[0]), [all, axisOf, hx, axes]);
  const y = useMemo(() => (all.includes(hy) ? axisOf(hy) : hparams[1] ?? hparams[0]), [all, axisOf, hy, axes]);
  if (!x || !y) return <Empty title="No hyperparameter differs"><p>With one trial, or the same values in all, there is nothing to compare.</p></Empty>;
  return (
    <>
      <Panel title="Parallel coordinates" tools={<AxesMenu shared={shared} />}><Parallel rows={rows} axes={axes} brushes={brushes} only={only} onBrush={(text) => setParams({ brush: text })} /></Panel>
      <Panel title={`${metric.title} over each hyperparameter`} tools={<label class="field"><input type="checkbox" checked={log} onChange={() => setParams({ log: log ? null : "1" })} />log</label>}>
        <div class="grid">{hparams.map((axis) => <Scatter key={axis.name} rows={left} x={axis} y={metric} />)}</div>
      </Panel>
      {all.length > 1 && (
        <Panel title={`Best ${metric.title} by two hyperparameters`} tools={<><AxisSelect label="across" names={all} value={x.name} param="hx" /><AxisSelect label="up" names={all} value={y.name} param="hy" /></>}>
          <HeatMap rows={left} x={x} y={y} />
        </Panel>
      )}
    </>
  );
}

function AxisSelect({ label, names, value, param }: { label: string; names: readonly string[]; value: string; param: string }) {
  return (
    <label class="field">{label}<select value={value} onChange={(event) => setParams({ [param]: event.currentTarget.value })}>{names.map((name) => <option key={name} value={name}>{name.slice(0, 60)}</option>)}</select></label>
  );
}
