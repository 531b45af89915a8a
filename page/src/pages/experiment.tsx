// One experiment: its head, its tabs.
import { useMemo } from "preact/hooks";
import { ActionMenu, CopyMenu } from "../actions/actions.tsx";
import { go, joinNumbers, setParams, splitList, useAddress, useTabs } from "../address.ts";
import { brushed, hparamAxis, metricAxis, parseBrushes, shownHparams, varying, type Axis } from "../charts/axes.ts";
import { firstLine, formatBytes, formatCount, formatNumber, formatTime, plural, toNumber } from "../format.ts";
import { LogView } from "../logs/log_view.tsx";
import { useAnswer } from "../live.ts";
import { experimentState } from "../states.ts";
import type { ExperimentDetail, TrialRow, TrialRows } from "../../generated/types.ts";
import { Empty, Facts, Link, Meter, Notice, Shown, State, Tabs, Tags } from "../ui/basics.tsx";
import { TrialCounts } from "../ui/counts.tsx";
import { Duration } from "../ui/clock.tsx";
import { Long } from "../ui/long.tsx";
import { CheckpointsTab } from "./experiment/checkpoints.tsx";
import { CodeTab } from "./experiment/code.tsx";
import { ConfigTab } from "./experiment/config.tsx";
import { CurvesTab } from "./experiment/curves.tsx";
import { HparamsTab } from "./experiment/hparams.tsx";
import { NotesTab } from "./experiment/notes.tsx";
import { trialsPath } from "./runs.tsx";
import { SearchView } from "./search.tsx";

export const EXPERIMENT_TRIAL_DEFAULTS = ["id", "state", "best", "batches", "progress", "duration", "restarts", "checkpoint_bytes"];
const TABS = [["curves", "Curves"], ["hparams", "Hyperparameters"], ["search", "Search"], ["checkpoints", "Checkpoints"], ["code", "Code"], ["config", "Configuration"], ["log", "Log"], ["notes", "Notes"]] as const;

/** The data that the tabs of an experiment share: its rows, the axes of its hyperparameters, and the trials inside the brushes. */
export interface Shared {
  detail: ExperimentDetail;
  rows: readonly TrialRow[];
  pending: number;
  /** The hyperparameters in which trials differ; `axes` has those that are chosen, and the metric. */
  all: string[];
  axes: Axis[];
  axisOf: (name: string) => Axis;
  brushes: Map<string, [number, number]>;
  only: Set<number> | null;
}

export function ExperimentPage({ id }: { id: number }) {
  const answer = useAnswer<ExperimentDetail>(`/api/experiments/${id}`);
  return <Shown answer={answer} what={`experiment ${id}`}>{(detail) => <Experiment detail={detail} />}</Shown>;
}

function Experiment({ detail }: { detail: ExperimentDetail }) {
  const { row } = detail;
  const { params } = useAddress();
  const { tab, address } = useTabs(`/experiments/${row.id}`, "curves", ["brush", "axes"]);
  const defaults = useMemo(() => [...EXPERIMENT_TRIAL_DEFAULTS], []);
  const trials = useAnswer<TrialRows>(trialsPath(params, defaults, row.id));
  const kept = params.get("brush");
  return (
    <>
      <Head detail={detail} />
      <Tabs label="Parts of the experiment" tabs={TABS.filter(([name]) => name !== "search" || !row.standalone)} current={tab} address={address} />
      {tab === "log" && !kept ? <ExperimentLog id={row.id} />
        : tab === "config" ? <ConfigTab detail={detail} />
        : tab === "code" ? <CodeTab id={row.id} />
        : tab === "notes" ? <NotesTab detail={detail} />
        : tab === "checkpoints" && !kept ? <CheckpointsTab path={`/api/experiments/${row.id}/checkpoints`} />
        : <Shown answer={trials} what="the trials">{(data) => <TrialTabs tab={tab} detail={detail} data={data} />}</Shown>}
    </>
  );
}

function TrialTabs({ tab, detail, data }: { tab: string; detail: ExperimentDetail; data: TrialRows }) {
  const { params } = useAddress();
  const { rows } = data;
  const brush = params.get("brush") ?? "";
  const chosen = params.get("axes");
  const brushes = useMemo(() => parseBrushes(brush), [brush]);
  const all = useMemo(() => varying(rows), [rows]);
  const axisOf = useMemo(() => {
    const space = new Map(detail.searched.map((one) => [one.name, one]));
    return (name: string) => hparamAxis(name, rows, space.get(name));
  }, [rows, detail.searched]);
  const axes = useMemo(() => [...shownHparams(all, chosen === null ? null : splitList(chosen), brushes).map(axisOf), metricAxis(rows)], [all, axisOf, chosen, brushes, rows]);
  const only = useMemo(() => brushed(rows, axes, brushes), [rows, axes, brushes]);
  const shared: Shared = { detail, rows, pending: data.pending_summaries, all, axes, axisOf, brushes, only };
  if (tab === "hparams") return <HparamsTab shared={shared} />;
  if (tab === "search") return <><Brushed shared={shared} /><SearchView id={detail.row.id} rows={rows} only={only} /></>;
  if (tab === "checkpoints") return <><Brushed shared={shared} /><CheckpointsTab path={`/api/experiments/${detail.row.id}/checkpoints`} only={only} /></>;
  if (tab === "log") return <><Brushed shared={shared} /><ExperimentLog id={detail.row.id} only={only} /></>;
  return <CurvesTab shared={shared} />;
}

/** The merged log of the trials, or of those that brushes leave. */
function ExperimentLog({ id, only = null }: { id: number; only?: Set<number> | null }) {
  if (only?.size === 0) return <Empty title="No trial is inside the brushes" />;
  return <LogView key={id} place={{ experiment: id, trials: only && joinNumbers(only) }} name={(trial) => `trial ${trial}`} />;
}

/** A notice that brushes hide trials, for tabs that do not show the axes of the brushes. */
function Brushed({ shared: { only, rows } }: { shared: Shared }) {
  if (!only) return null;
  return <Notice><span class="row"><span class="grow">Brushes leave {formatCount(only.size)} of {plural(rows.length, "trial")}.</span><button onClick={() => setParams({ brush: null })}>Clear the brushes</button></span></Notice>;
}

function Head({ detail }: { detail: ExperimentDetail }) {
  const { row } = detail;
  const base = {
    ids: [row.id], noun: "experiment",
    done: (created: number | null) => created !== null && go(`/experiments/${created}`),
  };
  const hparams = detail.config.hyperparameters;
  const flat = hparams && typeof hparams === "object" ? (hparams as { [name: string]: unknown }) : {};
  return (
    <>
      <div class="head">
        <div class="grow">
          <div class="crumbs"><Link to="/runs?view=experiments">Experiments</Link> / {row.id}</div>
          <div class="title"><h1 class="name">{firstLine(row.name) || `Experiment ${row.id}`}</h1><State state={experimentState(row)} pending={row.pending} reason={row.reason} /><Tags tags={row.labels} /></div>
          {row.description && <p class="quiet"><Long text={row.description} /></p>}
        </div>
        <div class="row">
          <CopyMenu commands={detail.commands} python={detail.python} />
          <ActionMenu actions={detail.actions} base={base} extra={{
            rename: { text: row.name }, describe: { text: row.description }, note: { text: detail.notes }, fork: { hparams: flat }, extend: { trials: row.trials }, unlabel: { choices: row.labels }, delete: { done: () => go("/runs?view=experiments") },
          }} />
        </div>
      </div>
      {row.state === "ERROR" && row.reason && <Notice kind="bad" title="The experiment failed."><Long text={row.reason} /></Notice>}
      {row.abandoned && <Notice kind="warn" title="Nothing runs this experiment now.">Its runner ended without finishing it. Activate it to continue.</Notice>}
      <section class="panel"><div class="panel-body"><Facts items={[
        ["Best", row.best === null ? "–" : <><span class="big number">{formatNumber(toNumber(row.best))}</span>{row.best_trial !== null && <> <Link to={`/trials/${row.best_trial}`}>trial {row.best_trial}</Link></>}</>],
        ["Metric", row.metric ? `${row.metric} (${row.smaller_is_better ? "smaller" : "larger"} is better)` : "–"],
        ["Trials", <span>{row.trials}: <TrialCounts states={row.states} failures={`/failures?experiment=${row.id}`} /></span>],
        ["Progress", <Meter share={row.progress} state={row.state} />],
        ["Duration", <Duration row={row} />],
        ["Searcher", row.searcher ?? "–"],
        ["Checkpoints", formatBytes(row.checkpoint_bytes)],
        ["Created", formatTime(row.created)],
        row.parent === null ? null : ["Forked from", <Link to={`/experiments/${row.parent}`}>{row.parent}</Link>],
      ]} /></div></section>
    </>
  );
}
