// The search: which trial is at which rung, and each decision in words; a slider replays it.
import { useMemo, useState } from "preact/hooks";
import { setParams, useAddress } from "../address.ts";
import { ofTrials } from "../charts/axes.ts";
import { fileName, saveText } from "../charts/files.ts";
import { Rungs } from "../charts/rungs.tsx";
import { formatCount, formatTime, plural } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { Decisions, SearchDecision as Decision, TrialRow } from "../../generated/types.ts";
import { Copy, Empty, Facts, Link, Notice, Panel, Shown } from "../ui/basics.tsx";
import { decisionsCsv, searchCounts, withFailures } from "./search_state.ts";

const MOST = 500;
const KINDS: Record<string, string> = { promoted: "good", completed: "good", continued: "run", stopped: "warn", paused: "warn", failed: "bad", copied: "run" };

export function SearchView({ id, rows, only }: { id: number; rows: readonly TrialRow[]; only: ReadonlySet<number> | null }) {
  const answer = useAnswer<Decisions>(`/api/experiments/${id}/decisions`);
  return <Shown answer={answer} what="the decisions">{(data) => <Search id={id} data={data} rows={rows} only={only} />}</Shown>;
}

function Search({ id, data, rows, only }: { id: number; data: Decisions; rows: readonly TrialRow[]; only: ReadonlySet<number> | null }) {
  const { params } = useAddress();
  const [all, setAll] = useState(false);
  const decisions = useMemo(() => ofTrials(withFailures(data, rows), only), [data, rows, only]);
  const left = useMemo(() => (only ? rows.filter((row) => only.has(row.id)) : rows), [rows, only]);
  const total = decisions.length;
  const step = Math.min(total, params.has("step") ? Number(params.get("step")) || 0 : total);
  const chosen = Number(params.get("trial")) || null;
  const bracket = params.get("bracket");
  const past = decisions.slice(0, step);
  const inBracket = (decision: Decision): boolean => bracket === null || decision.bracket === null || String(decision.bracket) === bracket;
  const seen = past.filter(inBracket);
  const listed = [...seen].reverse().filter((decision) => chosen === null || decision.trial === chosen);
  const rungs = bracket === null ? [...new Set(data.rungs.flat())].sort((a, b) => a - b) : data.rungs[Number(bracket)] ?? [];
  const at = past[past.length - 1];
  const trials = [...new Set(decisions.map((decision) => decision.trial))].filter((trial) => trial !== null).sort((a, b) => a - b);
  return (
    <>
      {data.problem && <Notice kind="warn" title="The decisions are shown as recorded, without their reasons."><span class="wrap">{data.problem}</span></Notice>}
      {total === 0 ? <Panel>{only ? <Empty title="No decisions about these trials" /> : <Empty title="No decisions yet"><p>They appear when the search creates its first trial.</p></Empty>}</Panel> : (
        <>
          <Panel title={`Search by ${data.method}`} tools={data.rungs.length > 1 && (
            <label class="field">Bracket<select value={bracket ?? ""} onChange={(event) => setParams({ bracket: event.currentTarget.value })}><option value="">all</option>{data.rungs.map((lengths, index) => <option key={index} value={String(index)}>{index + 1} ({lengths.join(", ")})</option>)}</select></label>
          )}>
            <div class="stack">
              <label class="row">Replay
                <input class="grow" type="range" min="0" max={total} value={step} aria-valuetext={`${step} of ${total} decisions`} onInput={(event) => setParams({ step: Number(event.currentTarget.value) === total ? null : event.currentTarget.value })} />
                <span class="number">{step} of {plural(total, "decision")}</span>
                {step < total && <button onClick={() => setParams({ step: null })}>To the end</button>}
              </label>
              <Facts items={[at?.time ? ["Now", formatTime(at.time, true)] : null, ...searchCounts(past, step === total ? left : null)]} />
              <Rungs decisions={seen} rungs={rungs} unit={data.time_metric} chosen={chosen} onPick={(trial) => setParams({ trial: trial === chosen ? null : String(trial) })} />
            </div>
          </Panel>
          <Panel flush title={chosen === null ? "Decisions, newest first" : `Decisions about trial ${chosen}`} tools={<>
            <label class="field">Trial<select value={chosen ?? ""} onChange={(event) => setParams({ trial: event.currentTarget.value })}><option value="">all</option>{trials.map((trial) => <option key={trial} value={trial}>{trial}</option>)}</select></label>
            {chosen !== null && <Link class="button" to={`/experiments/${id}?trial=${chosen}`}>Its curve</Link>}
            <Copy text={`det experiment decisions ${id}${chosen === null ? "" : ` --trial ${chosen}`}`} label="Copy as det" />
            <button onClick={() => saveText(decisionsCsv(decisions), fileName(`decisions-${id}`, "csv"))}>CSV</button>
          </>}>
            <ol class="decisions" tabIndex={0} aria-label="Decisions">
              {listed.slice(0, all ? listed.length : MOST).map((decision, index) => (
                <li key={listed.length - index}>
                  <span class="quiet number">{decision.sequence}</span>
                  <span class={`badge ${KINDS[decision.action] ?? ""}`}>{decision.action}</span>
                  {decision.trial !== null && <Link to={`/trials/${decision.trial}`}>trial {decision.trial}</Link>}
                  <span class="grow wrap">{decision.text}</span>
                  {decision.trial !== null && <Link to={`/experiments/${id}?trial=${decision.trial}`} label={`Curve of trial ${decision.trial}`}>curve</Link>}
                </li>
              ))}
            </ol>
            {listed.length > MOST && !all && <div class="table-foot row"><span>The newest {formatCount(MOST)} of {plural(listed.length, "decision")}.</span><button onClick={() => setAll(true)}>Show all</button></div>}
          </Panel>
        </>
      )}
    </>
  );
}
