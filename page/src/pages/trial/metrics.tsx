// All metrics of a trial by group; a chart exists only while it is in sight.
import { useCallback, useMemo } from "preact/hooks";
import { go, setParams, useAddress } from "../../address.ts";
import { get, withQuery } from "../../api.ts";
import { CurvesChart } from "../../charts/curves.tsx";
import { CurveTools, useCurveView, zoomTo } from "../../charts/curve_tools.tsx";
import type { AttemptMark } from "../../charts/plot.tsx";
import { firstLine, formatCount, formatNumber, formatTime, formatValue, numberOf, shorten } from "../../format.ts";
import { useAnswer } from "../../live.ts";
import type { Moment, TrialDetail, TrialMetric } from "../../../generated/types.ts";
import { Empty, Link, Notice, Panel } from "../../ui/basics.tsx";
import { InSight } from "../../ui/in_sight.tsx";
import { Long } from "../../ui/long.tsx";
import { say } from "../../ui/overlay.tsx";

const HEIGHT = 220;

export function MetricsTab({ detail }: { detail: TrialDetail }) {
  const { params } = useAddress();
  const view = useCurveView();
  const search = (params.get("find") ?? "").toLowerCase();
  const archived = params.get("archived") === "1";
  const shown = detail.metrics.filter((metric) => metric.key.toLowerCase().includes(search));
  const groups = [...new Set(shown.map((metric) => metric.group))];
  const at = params.get("at");
  const moment = useMoment(detail, view.axis, at);
  const attemptText = useCallback((number: number): string => attemptBegins(detail, number), [detail.attempts]);
  if (detail.metrics.length === 0) return <Panel><Empty title="Nothing has been reported yet"><p>Charts appear with the first metric.</p></Empty></Panel>;
  return (
    <>
      <div class="toolbar panel">
        <input type="search" data-filter aria-label="Find a metric" placeholder={`Find among ${formatCount(detail.metrics.length)} metrics`} value={params.get("find") ?? ""} onInput={(event) => setParams({ find: event.currentTarget.value })} />
        <CurveTools view={view} />
        {detail.attempts.length > 1 && <label class="field"><input type="checkbox" checked={archived} onChange={() => setParams({ archived: archived ? null : "1" })} />overwritten points</label>}
      </div>
      {at !== null && (
        <Notice><span class="row"><span class="grow">{moment ? "The moment of a log line is marked in the charts" : "There is no point near the moment of the log line"}: {formatTime(Number(at), true)}.</span>
          <Link class="button" to={`/trials/${detail.row.id}?tab=log&at=${at}`}>To the log</Link><button onClick={() => setParams({ at: null })}>Remove the mark</button></span></Notice>
      )}
      {detail.attempts.length > 1 && <ul class="attempts">{detail.attempts.slice(1).map((attempt) => <li key={attempt.number} class="wrap">{attemptText(attempt.number)}</li>)}</ul>}
      {groups.map((group) => <Group key={group} group={group} metrics={shown.filter((metric) => metric.group === group)} detail={detail} attemptText={attemptText} archived={archived} moment={moment} />)}
      {groups.length === 0 && <Panel><Empty title="No metric has this in its name" /></Panel>}
    </>
  );
}

/** Describes the beginning of an attempt: its batch, its checkpoint, and why the previous attempt ended. */
function attemptBegins(detail: TrialDetail, number: number): string {
  const attempt = detail.attempts.find((one) => one.number === number);
  const before = detail.attempts.find((one) => one.number === number - 1);
  if (!attempt) return "";
  const from = attempt.checkpoint ? `from checkpoint ${attempt.checkpoint.slice(0, 8)}` : "from the beginning";
  const reached = before?.last_batch == null ? "" : ` at batch ${formatNumber(before.last_batch)}`;
  const why = before ? ` Attempt ${before.number} ended${reached}: ${shorten(firstLine(before.why_ended) || before.state, 300)}` : "";
  return `Attempt ${number} began at batch ${formatNumber(attempt.first_batch)} ${from}.${why}`;
}

/** Where a time is on the axis of the charts: that of the nearest point of the metric with the most points. */
function useMoment(detail: TrialDetail, axis: string, at: string | null): AttemptMark | null {
  const numeric = detail.metrics.filter((metric) => metric.numeric);
  const most = numeric.reduce((best, metric) => (metric.summary.count > (best?.summary.count ?? 0) ? metric : best), numeric[0]);
  const answer = useAnswer<Moment>(at !== null && most ? withQuery(`/api/trials/${detail.row.id}/moment`, { key: most.key, axis, time: at }) : null);
  const x = answer.data?.x ?? null;
  return useMemo(() => (x === null ? null : { x, label: "log line", text: `A log line of ${formatTime(Number(at), true)}` }), [x, at]);
}

function Group({ group, metrics, detail, attemptText, archived, moment }: {
  group: string; metrics: TrialMetric[]; detail: TrialDetail; attemptText: (number: number) => string; archived: boolean; moment: AttemptMark | null;
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
            <h3 class="clip name" title={metric.name.slice(0, 500)}>{shorten(metric.name, 80)} <span class="quiet number">last {lastText(metric)}</span></h3>
            <InSight height={HEIGHT + 40}>{() => (
              <CurvesChart trials={[id]} metric={metric.key} view={view} onZoom={zoomTo} name={() => shorten(metric.name, 60)} height={HEIGHT} attemptText={attemptText} archived={archived} moment={moment} compact
                title={shorten(metric.key, 120)} onPick={(_, x) => void toLog(id, metric.key, view.axis, x)} />
            )}</InSight>
          </div>
        ))}
      </div>
      {others.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
          <thead><tr><th>Metrics that are no numbers</th><th class="right">Reports</th><th>Last</th></tr></thead>
          <tbody>{others.map((metric) => <tr key={metric.key}><td>{shorten(metric.name, 200)}</td><td class="right">{formatCount(metric.summary.count)}</td><td class="wrap"><Long text={formatValue(metric.summary.last)} /></td></tr>)}</tbody>
        </table></div>
      )}
    </Panel>
  );
}

/** The last value of a metric, which may be a text although others are numbers. */
export function lastText(metric: Pick<TrialMetric, "summary">): string {
  const value = numberOf(metric.summary.last);
  return value === null ? shorten(formatValue(metric.summary.last), 40) : formatNumber(value);
}

/** Opens the log at the moment of a point. */
async function toLog(trial: number, key: string, axis: string, x: number): Promise<void> {
  try {
    const { time } = await get<Moment>(withQuery(`/api/trials/${trial}/moment`, { key, axis, x }));
    go(`/trials/${trial}?tab=log&at=${time.toFixed(3)}`);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), "bad");
  }
}
