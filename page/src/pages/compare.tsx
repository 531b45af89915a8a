// Any trials of any experiments side by side: curves, hyperparameters, configuration, code.
import type { ComponentChild, ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { setParams, splitNumbers, useAddress } from "../address.ts";
import { CurvesChart } from "../charts/curves.tsx";
import { CurveTools, highlight, Highlighted, useCurveView, zoomTo } from "../charts/curve_tools.tsx";
import { dashesOf, LineSwatch } from "../charts/palette.tsx";
import { SideBySide } from "../diff/side_by_side.tsx";
import { firstLine, formatCount, formatNumber, formatValue, plural, shorten, toNumber } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { CodeDifference, Comparison, MetricKeys, TrialRow } from "../../generated/types.ts";
import { Copy, Empty, Link, Notice, Panel, Shown, State } from "../ui/basics.tsx";
import { Duration } from "../ui/clock.tsx";
import { Long } from "../ui/long.tsx";
import { compareCommand, comparePython } from "./copies.ts";
import { FileStatus } from "./experiment/code.tsx";
import { chosenMetric } from "./experiment/curves.tsx";

/** The server compares no more. */
const MOST = 100;
const MOST_COLUMNS = 30;

export function ComparePage() {
  const { params } = useAddress();
  const wanted = [...new Set(splitNumbers(params.get("trials") ?? ""))];
  const ids = wanted.slice(0, MOST);
  const answer = useAnswer<Comparison>(ids.length ? `/api/compare?trials=${ids.join(",")}` : null);
  return (
    <>
      <div class="head"><h1 class="grow">Compare {ids.length > 0 && plural(ids.length, "trial")}</h1><AddTrials ids={wanted} />{ids.length > 0 && <><Copy text={compareCommand(ids)} label="Copy as det" /><Copy text={comparePython(ids)} label="Copy as Python" /></>}</div>
      {wanted.length > MOST && <Notice kind="warn">These are the first {MOST} of {formatCount(wanted.length)} trials: no more can be compared at once.</Notice>}
      {ids.length === 0
        ? <Panel><Empty title="Nothing to compare yet"><p>Select trials in the table of runs, or type their numbers above.</p><div class="row"><Link class="button" to="/runs">To the runs</Link></div></Empty></Panel>
        : <Shown answer={answer} what="the comparison">{(data) => <Compared data={data} ids={ids} />}</Shown>}
    </>
  );
}

function cell(value: unknown): ComponentChild {
  return <Long text={formatValue(value)} most={160} />;
}

function AddTrials({ ids }: { ids: number[] }) {
  const [text, setText] = useState("");
  return (
    <form class="row" onSubmit={(event) => {
      event.preventDefault();
      setParams({ trials: [...new Set([...ids, ...splitNumbers(text)])].join(",") }, false);
      setText("");
    }}><label class="field">Add trials<input placeholder="3, 7-9" value={text} style={{ width: "110px" }} onInput={(event) => setText(event.currentTarget.value)} /></label><button type="submit">Add</button></form>
  );
}

function Compared({ data, ids }: { data: Comparison; ids: number[] }) {
  const { params } = useAddress();
  const view = useCurveView();
  const metrics = useAnswer<MetricKeys>("/api/metrics");
  const own = useAnswer<MetricKeys>(`/api/metrics?trial=${data.trials[0]?.id ?? ids[0]}`);
  const keys = useMemo(() => [...new Map([...(own.data?.keys ?? []), ...(metrics.data?.keys ?? [])].map((one) => [one.key, one])).values()], [own.data, metrics.data]);
  const metric = chosenMetric(params.get("metric"), keys, data.trials[0]?.metric ?? null);
  const highlighted = Number(params.get("trial")) || null;
  const dashes = dashesOf(ids);
  const onlyDifferent = params.get("all") !== "1";
  const named = new Map(data.trials.map((row) => [row.id, row]));
  const shown = data.trials.slice(0, MOST_COLUMNS);
  const cut = <T extends { values: unknown[] }>(one: T): unknown[] => one.values.slice(0, MOST_COLUMNS);
  const everything = <label class="field"><input type="checkbox" checked={!onlyDifferent} onChange={() => setParams({ all: onlyDifferent ? "1" : null })} />equal values, too</label>;
  return (
    <>
      {data.notes.map((note) => <Notice key={note}>{note}</Notice>)}
      <Panel title="Curves"><div class="stack">
        <CurveTools view={view} metrics={keys.filter((one) => one.numeric).map((one) => one.key)} metric={metric} />
        {metric ? <CurvesChart trials={ids} metric={metric} view={view} onZoom={zoomTo} name={(id) => `trial ${id}${named.get(id) ? ` ${firstLine(named.get(id)!.experiment_name)}` : ""}`} highlighted={highlighted} onPick={(trial) => highlight(trial, highlighted)} /> : <Empty title="No metrics" />}
        {highlighted !== null && named.has(highlighted) && <Highlighted trial={highlighted} />}
      </div></Panel>
      {data.trials.length > MOST_COLUMNS && <Notice>The tables show the first {MOST_COLUMNS} of {data.trials.length} trials.</Notice>}
      <Side title="Trials" trials={shown} dashes={dashes} rows={[
        { name: "experiment", cells: shown.map((row) => <Link to={`/experiments/${row.experiment}`}><span class="name">{firstLine(row.experiment_name)}</span></Link>), differs: false },
        { name: "state", cells: shown.map((row) => <State state={row.state} reason={row.reason} />), differs: false },
        { name: "best", cells: shown.map((row) => formatNumber(toNumber(row.best))), differs: false },
        { name: "batches", cells: shown.map((row) => formatNumber(row.batches)), differs: false },
        { name: "duration", cells: shown.map((row) => <Duration row={row} />), differs: false },
      ]} />
      <Side title="Hyperparameters" trials={shown} dashes={dashes} rows={data.hparams.filter((one) => one.differs || !onlyDifferent).map((one) => ({ name: one.name, cells: cut(one).map(cell), differs: one.differs }))} same={data.hparams.length > 0} tools={everything} />
      <Side title="Configuration" trials={shown} dashes={dashes} rows={data.config.filter((one) => one.differs || !onlyDifferent).map((one) => ({ name: one.name, cells: cut(one).map(cell), differs: one.differs }))} same={data.config.length > 0} tools={everything} />
      <Side title="Code" trials={shown} dashes={dashes} rows={data.code.filter((one) => one.differs || !onlyDifferent).map((one) => ({ name: one.path, cells: one.variants.slice(0, MOST_COLUMNS).map((variant) => variant ?? "missing"), differs: one.differs }))} same={data.code.length > 0} />
      <CodeBeside data={data} />
    </>
  );
}

/** The files that differ between two of the experiments, line by line. */
function CodeBeside({ data }: { data: Comparison }) {
  const { params } = useAddress();
  const variants = new Map(data.trials.map((row, at) => [row.experiment, data.code.map((file) => file.variants[at] ?? "").join(",")]));
  const experiments = [...variants.keys()];
  const chosen = (name: string): number | undefined => experiments.find((one) => one === Number(params.get(name)));
  const left = chosen("left") ?? experiments[0];
  const right = chosen("right") ?? experiments.find((one) => variants.get(one) !== variants.get(left ?? 0)) ?? experiments[1];
  const differ = new Set(variants.values()).size > 1;
  const answer = useAnswer<CodeDifference>(differ && left !== undefined && right !== undefined ? `/api/experiments/${right}/code/diff?other=${left}` : null, false);
  if (!differ) return null; // The table of files says that the code is the same, or that there is none.
  const select = (name: string, value: number | undefined) => (
    <label class="field">{name}<select value={value} onChange={(event) => setParams({ [name]: event.currentTarget.value })}>{experiments.map((one) => <option key={one} value={one}>experiment {one}</option>)}</select></label>
  );
  return (
    <Panel title="Code side by side" tools={<>{select("left", left)}{select("right", right)}</>}>
      <Shown answer={answer} what="the difference">{({ files, note }) => files.length === 0
        ? <p class="quiet">{note ?? "The code is the same."}</p>
        : <div class="stack">{note && <Notice>{note}</Notice>}{files.map((file) => (
            <div key={file.path}><h3><span class="name">{file.path}</span> <FileStatus status={file.status} /></h3><SideBySide diff={file.diff} path={file.path} left={`experiment ${left}`} right={`experiment ${right}`} /></div>
          ))}</div>}
      </Shown>
    </Panel>
  );
}

function Side({ title, trials, dashes, rows, same, tools }: {
  title: string; trials: readonly TrialRow[]; dashes: (trial: number) => readonly number[]; rows: { name: string; cells: ComponentChild[]; differs: boolean }[]; same?: boolean; tools?: ComponentChildren;
}) {
  return (
    <Panel flush title={title} tools={tools}>
      {rows.length === 0 ? <p class="panel-body quiet">{same ? "The same in all." : "Nothing recorded."}</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={title}><table class="sheet aligned" style={{ "--columns": trials.length }}>
          <thead><tr><th>Name</th>{trials.map((row) => <th key={row.id}><Link to={`/trials/${row.id}`}><LineSwatch trial={row.id} dashes={dashes(row.id)} /> {row.id}</Link></th>)}</tr></thead>
          <tbody>{rows.map((row) => <tr key={row.name} class={row.differs ? "differs" : undefined}><th scope="row">{shorten(row.name, 120)}{row.differs && <span class="hidden-text"> (differs)</span>}</th>{row.cells.map((cell, at) => <td key={at} class="number">{cell}</td>)}</tr>)}</tbody>
        </table></div>
      )}
    </Panel>
  );
}
