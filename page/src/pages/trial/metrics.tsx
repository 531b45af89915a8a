// All metrics of a trial by group; a chart exists only while it is in sight.
import { useMemo } from "preact/hooks";
import { go, setParams, useAddress } from "../../address.ts";
import { get, withQuery } from "../../api.ts";
import { CurvesChart } from "../../charts/curves.tsx";
import { CurveTools, useCurveView, zoomTo } from "../../charts/curve_tools.tsx";
import type { AttemptMark } from "../../charts/plot.tsx";
import { nearest } from "../../charts/plot_data.ts";
import { formatCount, formatNumber, formatValue, shorten, toNumber } from "../../format.ts";
import type { Curves, TrialDetail, TrialMetric } from "../../types.ts";
import { Empty, Panel } from "../../ui/basics.tsx";
import { InSight } from "../../ui/in_sight.tsx";
import { say } from "../../ui/overlay.tsx";

const HEIGHT = 220;

export function MetricsTab({ detail }: { detail: TrialDetail }) {
  const { params } = useAddress();
  const view = useCurveView();
  const search = (params.get("find") ?? "").toLowerCase();
  const archived = params.get("archived") === "1";
  const shown = detail.metrics.filter((metric) => metric.key.toLowerCase().includes(search));
  const groups = [...new Set(shown.map((metric) => metric.group))];
  const moment = params.has("at") ? Number(params.get("at")) : null;
  const attempts = useMemo((): AttemptMark[] => (view.axis !== "batches" ? [] : detail.attempts.slice(1).map((attempt) => ({ x: attempt.first_batch ?? 0, label: `attempt ${attempt.number}` }))), [detail.attempts, view.axis]);
  if (detail.metrics.length === 0) return <Panel><Empty title="Nothing has been reported yet"><p>Charts appear with the first metric.</p></Empty></Panel>;
  return (
    <>
      <div class="toolbar panel">
        <input type="search" data-filter aria-label="Find a metric" placeholder={`Find among ${formatCount(detail.metrics.length)} metrics`} value={params.get("find") ?? ""} onInput={(event) => setParams({ find: event.currentTarget.value })} />
        <CurveTools view={view} />
        {detail.attempts.length > 1 && <label class="field"><input type="checkbox" checked={archived} onChange={() => setParams({ archived: archived ? null : "1" })} />overwritten points</label>}
      </div>
      {groups.map((group) => <Group key={group} group={group} metrics={shown.filter((metric) => metric.group === group)} detail={detail} attempts={attempts} archived={archived} moment={moment} />)}
      {groups.length === 0 && <Panel><Empty title="No metric has this in its name" /></Panel>}
    </>
  );
}

function Group({ group, metrics, detail, attempts, archived, moment }: {
  group: string; metrics: TrialMetric[]; detail: TrialDetail; attempts: AttemptMark[]; archived: boolean; moment: number | null;
}) {
  const view = useCurveView();
  const numeric = metrics.filter((metric) => metric.numeric);
  const others = metrics.filter((metric) => !metric.numeric);
  const id = detail.row.id;
  return (
    <Panel title={<><span class="name">{shorten(group, 60)}</span> <span class="quiet">{formatCount(metrics.length)}</span></>}>
      <div class="grid">
        {numeric.map((metric) => (
          <div key={metric.key} class="chart">
            <h3 class="clip name" title={metric.name.slice(0, 500)}>{shorten(metric.name, 80)} <span class="quiet number">last {formatNumber(toNumber(last(metric)))}</span></h3>
            <InSight height={HEIGHT + 40}>{() => (
              <CurvesChart trials={[id]} metric={metric.key} view={view} onZoom={zoomTo} name={() => shorten(metric.name, 60)} height={HEIGHT} attempts={attempts} archived={archived} moment={moment} compact
                title={shorten(metric.key, 120)} onPick={(_, x) => void toLog(id, metric.key, view.axis, x)} />
            )}</InSight>
          </div>
        ))}
      </div>
      {others.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
          <thead><tr><th>Metrics that are no numbers</th><th class="right">Reports</th><th>Last</th></tr></thead>
          <tbody>{others.map((metric) => <tr key={metric.key}><td>{shorten(metric.name, 200)}</td><td class="right">{formatCount(metric.summary.count)}</td><td class="wrap">{shorten(formatValue(metric.summary.last), 2000)}</td></tr>)}</tbody>
        </table></div>
      )}
    </Panel>
  );
}

function last(metric: TrialMetric): number | string | null {
  const value = metric.summary?.last;
  return typeof value === "number" || typeof value === "string" ? value : null;
}

/** Opens the log at the moment of a point. */
async function toLog(trial: number, key: string, axis: string, x: number): Promise<void> {
  try {
    const time = await timeOf(trial, key, axis, x);
    if (time === null) say("The time of this point is not known.", "bad");
    else go(`/trials/${trial}?tab=log&at=${time.toFixed(3)}`);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), "bad");
  }
}

/** The time of a point, seconds since the epoch: that of the point at the same place of the curve over time. */
async function timeOf(trial: number, key: string, axis: string, x: number): Promise<number | null> {
  const ask = (name: string): Promise<Curves> => get<Curves>(withQuery("/api/curves", { trials: trial, key, axis: name, points: 10000 }));
  const times = await ask("time");
  const started = times.curves[0]?.started ?? null;
  if (started === null || times.x.length === 0) return null;
  if (axis === "time") return started + x;
  const steps = (await ask(axis)).x;
  const [first, last] = [steps[0] ?? 0, steps[steps.length - 1] ?? 0];
  const share = steps.length === times.x.length ? nearest(steps, x) / Math.max(1, steps.length - 1) : (x - first) / (last - first || 1);
  return started + times.x[Math.min(times.x.length - 1, Math.max(0, Math.round(share * (times.x.length - 1))))]!;
}
