// The columns of the tables of trials and experiments: what they hold, how they look, how they sort and filter.
import type { ComponentChildren } from "preact";
import { Swatch } from "../charts/palette.tsx";
import { firstLine, formatBytes, formatCount, formatNumber, formatTime, formatValue, numberOf, toNumber } from "../format.ts";
import { experimentState } from "../states.ts";
import type { ExperimentRow, TrialRow } from "../../generated/types.ts";
import { Link, Meter, State, Tags } from "../ui/basics.tsx";
import { Ago, Duration, duration } from "../ui/clock.tsx";
import type { Cell } from "./filter.ts";

export interface Column<Row> {
  /** The name in filters and addresses. */
  name: string;
  title: string;
  group: string;
  width: number;
  right?: boolean;
  value: (row: Row) => Cell;
  /** What the cell shows; without it, the value. */
  show?: (row: Row) => ComponentChildren;
}

function number<Row>(name: string, title: string, group: string, value: (row: Row) => number | null, width = 92): Column<Row> {
  return { name, title, group, width, right: true, value, show: (row) => <Numeric value={value(row)} /> };
}

function Numeric({ value }: { value: number | null }) {
  const odd = value !== null && !Number.isFinite(value);
  return <span class={odd ? "nan" : undefined}>{formatNumber(value)}</span>;
}

/** Values of hyperparameters as cells: numbers stay numbers, what is nested becomes text. */
export function hparamCell(value: unknown): Cell {
  if (value === null || value === undefined) return null;
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "string") return value === "NaN" ? NaN : value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : value;
  return JSON.stringify(value);
}

const TRIAL_COLUMNS: Column<TrialRow>[] = [
  { name: "id", title: "Trial", group: "Run", width: 84, value: (row) => row.id, show: (row) => <Link to={`/trials/${row.id}`}><Swatch trial={row.id} /> {row.id}</Link> },
  { name: "name", title: "Experiment", group: "Run", width: 200, value: (row) => row.experiment_name, show: (row) => <Link to={`/experiments/${row.experiment}`}><span class="name">{firstLine(row.experiment_name)}</span> <span class="quiet">{row.experiment}</span></Link> },
  { name: "state", title: "State", group: "Run", width: 150, value: (row) => row.state, show: (row) => <State state={row.state} pending={row.pending} reason={row.reason} /> },
  { name: "experiment", title: "Experiment ID", group: "Run", width: 104, right: true, value: (row) => row.experiment },
  { name: "number", title: "Number", group: "Run", width: 82, right: true, value: (row) => row.number },
  number("best", "Best", "Metric", (row) => toNumber(row.best)),
  number("latest", "Latest", "Metric", (row) => toNumber(row.latest)),
  { name: "metric", title: "Searcher metric", group: "Metric", width: 150, value: (row) => row.metric },
  { name: "progress", title: "Progress", group: "Run", width: 134, value: (row) => row.progress, show: (row) => <Meter share={row.progress} state={row.state} /> },
  number("batches", "Batches", "Run", (row) => row.batches, 88),
  { name: "duration", title: "Duration", group: "Run", width: 112, right: true, value: duration, show: (row) => <Duration row={row} /> },
  { name: "label", title: "Labels", group: "Run", width: 140, value: (row) => row.labels, show: (row) => <Tags tags={row.labels} /> },
  number("restarts", "Restarts", "Run", (row) => row.restarts, 82),
  number("attempts", "Attempts", "Run", (row) => row.attempts, 86),
  number("checkpoints", "Checkpoints", "Run", (row) => row.checkpoints, 100),
  { name: "checkpoint_bytes", title: "Checkpoint size", group: "Run", width: 116, right: true, value: (row) => row.checkpoint_bytes, show: (row) => formatBytes(row.checkpoint_bytes) },
  { name: "created", title: "Created", group: "Run", width: 116, value: (row) => row.created, show: (row) => <Ago time={row.created} /> },
  { name: "ended", title: "Ended", group: "Run", width: 132, value: (row) => row.ended, show: (row) => formatTime(row.ended) },
  { name: "reason", title: "Reason", group: "Run", width: 260, value: (row) => row.reason, show: (row) => <span class="name" title={row.reason ?? undefined}>{firstLine(row.reason)}</span> },
  { name: "owner", title: "Owner", group: "Run", width: 100, value: (row) => row.owner },
  { name: "host", title: "Host", group: "Run", width: 110, value: (row) => row.host },
  { name: "archived", title: "Archived", group: "Run", width: 86, value: (row) => row.archived, show: (row) => (row.archived ? "yes" : "") },
];

export const TRIAL_DEFAULTS = ["id", "name", "state", "best", "progress", "duration", "label", "created"];

export const EXPERIMENT_COLUMNS: Column<ExperimentRow>[] = [
  { name: "id", title: "ID", group: "Experiment", width: 70, value: (row) => row.id, show: (row) => <Link to={`/experiments/${row.id}`}>{row.id}</Link> },
  { name: "name", title: "Name", group: "Experiment", width: 250, value: (row) => row.name, show: (row) => <Link to={`/experiments/${row.id}`}><span class="name">{firstLine(row.name)}</span></Link> },
  { name: "state", title: "State", group: "Experiment", width: 132, value: experimentState, show: (row) => <State state={experimentState(row)} pending={row.pending} reason={row.reason} /> },
  { name: "searcher", title: "Searcher", group: "Experiment", width: 130, value: (row) => row.searcher },
  { name: "trials", title: "Trials", group: "Experiment", width: 76, right: true, value: (row) => row.trials, show: (row) => formatCount(row.trials) },
  { name: "failed", title: "Failed", group: "Experiment", width: 76, right: true, value: (row) => row.failed, show: (row) => (row.failed ? <Link to={`/failures?experiment=${row.id}`}><span class="badge bad">{row.failed}</span></Link> : <span class="quiet">0</span>) },
  { name: "metric", title: "Metric", group: "Metric", width: 150, value: (row) => row.metric },
  number("best", "Best", "Metric", (row) => toNumber(row.best)),
  { name: "best_trial", title: "Best trial", group: "Metric", width: 90, right: true, value: (row) => row.best_trial, show: (row) => (row.best_trial === null ? "–" : <Link to={`/trials/${row.best_trial}`}>{row.best_trial}</Link>) },
  { name: "progress", title: "Progress", group: "Experiment", width: 134, value: (row) => row.progress, show: (row) => <Meter share={row.progress} state={row.state} /> },
  { name: "duration", title: "Duration", group: "Experiment", width: 112, right: true, value: duration, show: (row) => <Duration row={row} /> },
  { name: "label", title: "Labels", group: "Experiment", width: 140, value: (row) => row.labels, show: (row) => <Tags tags={row.labels} /> },
  { name: "checkpoint_bytes", title: "Checkpoint size", group: "Experiment", width: 116, right: true, value: (row) => row.checkpoint_bytes, show: (row) => formatBytes(row.checkpoint_bytes) },
  { name: "created", title: "Created", group: "Experiment", width: 116, value: (row) => row.created, show: (row) => <Ago time={row.created} /> },
  { name: "ended", title: "Ended", group: "Experiment", width: 132, value: (row) => row.ended, show: (row) => formatTime(row.ended) },
  { name: "parent", title: "Forked from", group: "Experiment", width: 100, right: true, value: (row) => row.parent },
  { name: "description", title: "Description", group: "Experiment", width: 240, value: (row) => row.description },
  { name: "reason", title: "Reason", group: "Experiment", width: 260, value: (row) => row.reason, show: (row) => <span class="name" title={row.reason ?? undefined}>{firstLine(row.reason)}</span> },
  { name: "owner", title: "Owner", group: "Experiment", width: 100, value: (row) => row.owner },
  { name: "host", title: "Host", group: "Experiment", width: 110, value: (row) => row.host },
  { name: "archived", title: "Archived", group: "Experiment", width: 86, value: (row) => row.archived, show: (row) => (row.archived ? "yes" : "") },
];

export const EXPERIMENT_DEFAULTS = ["id", "name", "state", "searcher", "trials", "failed", "best", "progress", "duration", "label", "created"];

const STATISTICS = ["last", "min", "max", "mean"] as const;

/** "validation/loss.min" -> its key and statistic; the statistic is after the last dot. */
export function metricOfColumn(name: string): { key: string; statistic: (typeof STATISTICS)[number] } | null {
  const at = name.lastIndexOf(".");
  const statistic = STATISTICS.find((one) => one === name.slice(at + 1));
  return statistic && name.slice(0, at).includes("/") ? { key: name.slice(0, at), statistic } : null;
}

export function metricColumn(name: string): Column<TrialRow> | null {
  const metric = metricOfColumn(name);
  if (!metric) return null;
  const { key, statistic } = metric;
  const value = (row: TrialRow): number | null => numberOf(row.metrics[key]?.[statistic]);
  return {
    name, title: `${key} ${statistic}`, group: "Metrics", width: 128, right: true, value,
    show: (row) => {
      const summary = row.metrics[key];
      if (summary === null) return <span class="quiet" title="Being computed">…</span>;
      if (summary === undefined) return <span class="quiet">–</span>;
      if (value(row) === null) return <span class="name" title={formatValue(summary[statistic]).slice(0, 500)}>{formatValue(summary[statistic]).slice(0, 100)}</span>;
      const odd = summary.nonfinite ? ` ${summary.nonfinite}×NaN` : "";
      return <span title={odd ? `${summary.nonfinite} values are not finite` : undefined}><Numeric value={value(row)} />{odd && <span class="nan">{odd}</span>}</span>;
    },
  };
}

/** All columns of trials: the fixed ones, one for each hyperparameter, and four for each metric. */
export function trialColumns(rows: readonly TrialRow[], keys: readonly { key: string; numeric: boolean }[]): Column<TrialRow>[] {
  const names = new Set<string>();
  for (const row of rows) for (const name in row.hparams) names.add(name);
  const fixed = new Set(TRIAL_COLUMNS.map((column) => column.name));
  const hparams = [...names].sort().map((hparam): Column<TrialRow> => {
    const value = (row: TrialRow): Cell => hparamCell(row.hparams[hparam]);
    return {
      name: fixed.has(hparam) ? `hparams.${hparam}` : hparam, title: hparam, group: "Hyperparameters", width: 110, value,
      show: (row) => <HparamCell row={row} name={hparam} />,
    };
  });
  const metrics = keys.filter((one) => one.numeric).flatMap((one) =>
    STATISTICS.map((statistic) => metricColumn(`${one.key}.${statistic}`)!));
  return [...TRIAL_COLUMNS, ...hparams, ...metrics];
}

function HparamCell({ row, name }: { row: TrialRow; name: string }) {
  const value = hparamCell(row.hparams[name]);
  const text = formatValue(value);
  const other = row.differing_hparams.includes(name);
  return <span class="name" title={other ? `${text} (the search assigned another value)` : text}>{text}{other && <span class="nan"> *</span>}</span>;
}
