// Runs: one flat table of trials, or of experiments.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { BulkActions, CopyMenu } from "../actions/actions.tsx";
import { go, joinNumbers, setParams, splitList, useAddress } from "../address.ts";
import { formatCount, plural } from "../format.ts";
import { useAnswer } from "../live.ts";
import { allStates, statesOf } from "../states.ts";
import { EXPERIMENT_COLUMNS, EXPERIMENT_DEFAULTS, metricOfColumn, TRIAL_DEFAULTS, trialColumns } from "../table/columns.tsx";
import { DataTable, namesInUse } from "../table/data_table.tsx";
import type { ExperimentRow, ExperimentRows, MetricKeys, TrialRow, TrialRows } from "../../generated/types.ts";
import { Empty, Segments, Shown } from "../ui/basics.tsx";
import { TrialCounts } from "../ui/counts.tsx";
import { say } from "../ui/overlay.tsx";
import { experimentCopies, listCopies, trialCopies } from "./copies.ts";

const EXPERIMENT_ACTIONS = ["pause", "activate", "cancel", "kill", "label", "unlabel", "archive", "unarchive", "delete"];

export function RunsPage() {
  const { params } = useAddress();
  const experiments = params.get("view") === "experiments";
  return (
    <>
      <div class="head">
        <h1 class="grow">Runs</h1>
        <Segments label="Rows" value={experiments ? "experiments" : "trials"} options={[["trials", "Trials"], ["experiments", "Experiments"]]}
          onChange={(view) => go(view === "experiments" ? "/runs?view=experiments" : "/runs")} />
      </div>
      {experiments ? <Experiments /> : <Trials />}
    </>
  );
}

function ArchivedSwitch() {
  const { params } = useAddress();
  const on = params.get("archived") === "1";
  return <label class="field"><input type="checkbox" checked={on} onChange={() => setParams({ archived: on ? null : "1" })} />Archived</label>;
}

export function NoRuns() {
  return (
    <Empty title="No runs yet">
      <p>Everything that trains with this store appears here while it runs.</p>
      <div class="row"><code>det experiment create CONFIG.yaml DIRECTORY</code></div>
    </Empty>
  );
}

export function compareAddress(ids: readonly number[]): string {
  return `/compare?trials=${joinNumbers(ids)}`;
}

export function compareTrials(ids: readonly number[]): void {
  go(compareAddress(ids));
}

/** The metrics whose statistics columns, filter and sort order of the address use. */
export function metricsInUse(params: URLSearchParams, defaults: readonly string[]): { key: string; numeric: boolean }[] {
  const columns = params.has("cols") ? splitList(params.get("cols")!) : defaults;
  const metrics = namesInUse(params, columns).map(metricOfColumn).filter((metric) => metric !== null);
  return [...new Set(metrics.map((metric) => metric.key))].sort().map((key) => ({ key, numeric: true }));
}

/** The request for rows of trials, with the statistics of the metrics that the view uses. */
export function trialsPath(params: URLSearchParams, defaults: readonly string[], experiment?: number): string {
  const query = new URLSearchParams();
  if (params.get("archived") === "1") query.set("archived", "1");
  if (experiment !== undefined) query.set("experiment", String(experiment));
  for (const { key } of metricsInUse(params, defaults)) query.append("metric", key);
  const text = query.toString();
  return text ? `/api/trials?${text}` : "/api/trials";
}

const NO_ROWS: readonly TrialRow[] = [];

/** The columns of trials. Until it is known which metrics exist, those that the address uses do. */
export function useTrialColumns(rows: readonly TrialRow[], metrics: MetricKeys | null, params: URLSearchParams, defaults: readonly string[]): ReturnType<typeof trialColumns> {
  return useMemo(() => trialColumns(rows, metrics?.keys ?? metricsInUse(params, defaults)), [rows, metrics, metrics ? null : params]);
}

function Trials() {
  const { params } = useAddress();
  const answer = useAnswer<TrialRows>(trialsPath(params, TRIAL_DEFAULTS));
  const metrics = useAnswer<MetricKeys>("/api/metrics");
  const rows = answer.data?.rows;
  const columns = useTrialColumns(rows ?? NO_ROWS, metrics.data, params, TRIAL_DEFAULTS);
  return <Shown answer={answer} what="the runs">{(data) => <TrialTable rows={data.rows} columns={columns} pending={data.pending_summaries} unread={metrics.data?.unread_trials ?? 0} defaults={TRIAL_DEFAULTS} tools={<ArchivedSwitch />}
    copy={(ids) => <CopyMenu {...(ids ? trialCopies(ids) : listCopies(params.get("archived") === "1"))} />} />}</Shown>;
}

/** The table of trials. The statistics of `pending` ones are missing, and the metrics of `unread` ones are no columns. */
export function TrialTable({ rows, columns, pending, unread, defaults, tools, copy, only, experiment }: {
  rows: readonly TrialRow[]; columns: ReturnType<typeof trialColumns>; pending: number; unread: number; defaults: readonly string[];
  tools?: ComponentChildren; copy?: (ids: number[] | null) => ComponentChildren; only?: ReadonlySet<number> | null; experiment?: number;
}) {
  return (
    <DataTable label="Trials" noun="trial" rows={rows} columns={columns} defaults={defaults} id={(row) => row.id} address={(row) => `/trials/${row.id}`} only={only ?? null}
      texts={(row) => `${row.id} ${row.experiment_name} ${row.labels.join(" ")} ${row.state}`} example="lr < 1e-3 and state = ERROR and label = x" tools={tools} {...(copy ? { copy } : {})} empty={<NoRuns />}
      onCompare={compareTrials} actions={(ids, chosen) => <TrialActions ids={ids} rows={chosen} />}
      foot={(shown) => <>
        <TrialCounts states={statesOf(shown)} failures={experiment ? `/failures?experiment=${experiment}` : "/failures"} />
        {pending > 0 && <span role="status">statistics of {formatCount(pending)} trials are being computed</span>}
        {unread > 0 && pending === 0 && <span title="The statistics of all trials are computed when one is shown.">metrics that only {plural(unread, "older trial")} reported are in Columns once a metric is shown</span>}
      </>} />
  );
}

/** Trials can be killed one by one; everything else belongs to their experiments, which the menu names. */
function TrialActions({ ids, rows }: { ids: number[]; rows: TrialRow[] }) {
  const experiments = [...new Set(rows.map((row) => row.experiment))];
  const running = rows.filter((row) => ["RUNNING", "QUEUED", "PAUSED", "STOPPING"].includes(row.state)).map((row) => row.id);
  return (
    <>
      {running.length > 0 && <BulkActions ids={running} noun="trial" actions={["kill_trial"]} />}
      <span class="quiet">{ids.length ? `of experiment${experiments.length > 1 ? "s" : ""} ${joinNumbers(experiments)}:` : ""}</span>
      <BulkActions ids={experiments} noun="experiment" actions={EXPERIMENT_ACTIONS} />
    </>
  );
}

function Experiments() {
  const { params } = useAddress();
  const answer = useAnswer<ExperimentRows>(params.get("archived") === "1" ? "/api/experiments?archived=1" : "/api/experiments");
  const compare = (rows: readonly ExperimentRow[]) => (ids: number[]): void => {
    const chosen = new Set(ids);
    const trials = rows.filter((row) => chosen.has(row.id)).map((row) => row.best_trial ?? row.newest_trial).filter((id) => id !== null);
    const without = ids.length - trials.length;
    if (without > 0) say(trials.length ? `Left out, as they have no trials yet: ${plural(without, "experiment")}.` : "There is nothing to compare: no trials yet.", "bad");
    if (trials.length) compareTrials(trials);
  };
  return (
    <Shown answer={answer} what="the experiments">{(data) => (
      <DataTable label="Experiments" noun="experiment" rows={data.rows} columns={EXPERIMENT_COLUMNS} defaults={EXPERIMENT_DEFAULTS} id={(row) => row.id} address={(row) => `/experiments/${row.id}`}
        texts={(row) => `${row.id} ${row.name} ${row.description} ${row.labels.join(" ")} ${row.state}`} example="searcher = adaptive_asha and failed > 0" tools={<ArchivedSwitch />} copy={(ids) => <CopyMenu {...(ids ? experimentCopies(ids) : listCopies(params.get("archived") === "1"))} />} empty={<NoRuns />}
        onCompare={compare(data.rows)} actions={(ids) => <BulkActions ids={ids} noun="experiment" actions={EXPERIMENT_ACTIONS} />}
        foot={(shown) => <span>Trials: <TrialCounts states={allStates(shown)} failures="/failures" /></span>} />
    )}</Shown>
  );
}
