// The curves of all trials, parallel coordinates, and the table; brushes filter all of them.
import { useMemo } from "preact/hooks";
import { setParams, splitNumbers, useAddress } from "../../address.ts";
import { CurvesChart } from "../../charts/curves.tsx";
import { CurveTools, highlight, Highlighted, useCurveView, zoomTo } from "../../charts/curve_tools.tsx";
import { Parallel } from "../../charts/parallel.tsx";
import { formatCount, formatNumber, toNumber } from "../../format.ts";
import { useAnswer } from "../../live.ts";
import type { MetricKeys, TrialRow } from "../../../generated/types.ts";
import { Empty, Panel, Shown } from "../../ui/basics.tsx";
import { EXPERIMENT_TRIAL_DEFAULTS, type Shared } from "../experiment.tsx";
import { TrialTable, useTrialColumns } from "../runs.tsx";
import { AxesMenu } from "./axes_menu.tsx";

const MOST = [10, 20, 50, 100, 1000] as const;

/** The best trials first; those without a finite metric come last. */
export function byMetric(rows: readonly TrialRow[]): TrialRow[] {
  const value = (row: TrialRow): number => {
    const metric = toNumber(row.best);
    if (metric === null || !Number.isFinite(metric)) return Infinity;
    return row.smaller_is_better ? metric : -metric;
  };
  return [...rows].sort((a, b) => value(a) - value(b) || a.id - b.id);
}

/** The trials whose curves are drawn: the selected ones, or the best; the highlighted one in any case. */
export function drawnTrials(rows: readonly TrialRow[], only: ReadonlySet<number> | null, selected: readonly number[], most: number, highlighted: number | null): number[] {
  const left = byMetric(rows.filter((row) => !only || only.has(row.id)));
  const shown = new Set((selected.length ? left.filter((row) => selected.includes(row.id)) : left.slice(0, most)).map((row) => row.id));
  if (highlighted !== null && rows.some((row) => row.id === highlighted)) shown.add(highlighted);
  return [...shown].sort((a, b) => a - b);
}

export function chosenMetric(wanted: string | null, keys: readonly { key: string; numeric: boolean }[], searcher: string | null): string {
  const numeric = keys.filter((one) => one.numeric).map((one) => one.key);
  if (wanted && (numeric.includes(wanted) || numeric.length === 0)) return wanted;
  const own = [searcher, `validation/${searcher}`].find((key) => key !== null && numeric.includes(key));
  return own ?? numeric.find((key) => key.endsWith(`/${searcher}`)) ?? numeric.find((key) => key.startsWith("validation/")) ?? numeric[0] ?? "";
}

export function trialName(row: TrialRow | undefined, id: number): string {
  if (!row) return `trial ${id}`;
  const best = toNumber(row.best);
  return `trial ${id}${best === null ? "" : ` (best ${formatNumber(best)})`}`;
}

export function CurvesTab({ shared }: { shared: Shared }) {
  const { detail, rows, only, axes, brushes } = shared;
  const { params } = useAddress();
  const view = useCurveView();
  const metrics = useAnswer<MetricKeys>(`/api/metrics?experiment=${detail.row.id}`);
  const keys = metrics.data?.keys ?? [];
  const columns = useTrialColumns(rows, metrics.data, params, EXPERIMENT_TRIAL_DEFAULTS);
  const most = Number(params.get("top") ?? "100") || 100;
  const selected = splitNumbers(params.get("sel") ?? "");
  const named = useMemo(() => new Map(rows.map((row) => [row.id, row])), [rows]);
  const highlighted = Number(params.get("trial")) || null;
  const [drawn, chosen] = useMemo(() => [drawnTrials(rows, only, selected, most, highlighted), drawnTrials(rows, only, selected, most, null).length], [rows, only, most, params.get("sel"), highlighted]);
  const metric = chosenMetric(params.get("metric"), keys, detail.row.metric);
  const all = only?.size ?? rows.length;
  return (
    <>
      <Panel title="Curves" tools={
        <label class="field">Best<select value={String(most)} onChange={(event) => setParams({ top: event.currentTarget.value === "100" ? null : event.currentTarget.value })}>{MOST.map((count) => <option key={count}>{count}</option>)}</select>trials</label>
      }>
        <Shown answer={metrics} what="the metrics">{(data) => data.keys.length === 0
          ? <Empty title="Nothing has been reported yet"><p>Curves appear with the first metric of a trial.</p></Empty>
          : <div class="stack">
              <CurveTools view={view} metrics={keys.filter((one) => one.numeric).map((one) => one.key)} metric={metric} />
              {chosen < all && <p class="quiet">{selected.length ? "The selected" : "The best"} {formatCount(chosen)} of {formatCount(all)} trials.</p>}
              <CurvesChart trials={drawn} metric={metric} view={view} onZoom={zoomTo} name={(id) => trialName(named.get(id), id)} highlighted={highlighted} onPick={(trial) => highlight(trial, highlighted)} />
              {highlighted !== null && named.has(highlighted) && <Highlighted trial={highlighted} />}
            </div>}
        </Shown>
      </Panel>
      {axes.length > 1 && rows.length > 1 && (
        <Panel title="Parallel coordinates" tools={<AxesMenu shared={shared} />}><Parallel rows={rows} axes={axes} brushes={brushes} only={only} onBrush={(text) => setParams({ brush: text })} /></Panel>
      )}
      <TrialTable rows={rows} columns={columns} pending={shared.pending} unread={metrics.data?.unread_trials ?? 0} defaults={EXPERIMENT_TRIAL_DEFAULTS} only={only} experiment={detail.row.id} />
    </>
  );
}
