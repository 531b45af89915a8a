// How the metric depends on hyperparameters: a scatter plot for each, a heat map of two.
import { useMemo } from "preact/hooks";
import { setParams, useAddress } from "../../address.ts";
import { METRIC_AXIS, metricAxis, type Axis } from "../../charts/axes.ts";
import { HeatMap } from "../../charts/heatmap.tsx";
import { Parallel } from "../../charts/parallel.tsx";
import { Scatter } from "../../charts/scatter.tsx";
import { Empty, Panel } from "../../ui/basics.tsx";
import type { Shared } from "../experiment.tsx";

export function HparamsTab({ shared }: { shared: Shared }) {
  const { params } = useAddress();
  const log = params.get("log") === "1";
  const { rows, axes, only, brushes } = shared;
  const hparams = axes.filter((axis) => axis.name !== METRIC_AXIS);
  const left = useMemo(() => (only ? rows.filter((row) => only.has(row.id)) : rows), [rows, only]);
  const metric = useMemo(() => metricAxis(left, log), [left, log]);
  if (hparams.length === 0) return <Empty title="No hyperparameter differs"><p>With one trial, or the same values in all, there is nothing to compare.</p></Empty>;
  const x = hparams.find((axis) => axis.name === params.get("hx")) ?? hparams[0]!;
  const y = hparams.find((axis) => axis.name === params.get("hy")) ?? hparams[1] ?? hparams[0]!;
  return (
    <>
      <Panel title="Parallel coordinates"><Parallel rows={rows} axes={axes} brushes={brushes} only={only} onBrush={(text) => setParams({ brush: text })} /></Panel>
      <Panel title={`${metric.title} over each hyperparameter`} tools={<label class="field"><input type="checkbox" checked={log} onChange={() => setParams({ log: log ? null : "1" })} />log</label>}>
        <div class="grid">{hparams.map((axis) => <Scatter key={axis.name} rows={left} x={axis} y={metric} />)}</div>
      </Panel>
      {hparams.length > 1 && (
        <Panel title={`Best ${metric.title} by two hyperparameters`} tools={<><AxisSelect label="across" axes={hparams} value={x.name} param="hx" /><AxisSelect label="up" axes={hparams} value={y.name} param="hy" /></>}>
          <HeatMap rows={left} x={x} y={y} />
        </Panel>
      )}
    </>
  );
}

function AxisSelect({ label, axes, value, param }: { label: string; axes: readonly Axis[]; value: string; param: string }) {
  return (
    <label class="field">{label}<select value={value} onChange={(event) => setParams({ [param]: event.currentTarget.value })}>{axes.map((axis) => <option key={axis.name} value={axis.name}>{axis.title.slice(0, 60)}</option>)}</select></label>
  );
}
