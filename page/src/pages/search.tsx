// The search: which trial is at which rung, and each decision in words; a slider replays it.
import { useMemo } from "preact/hooks";
import { setParams, useAddress } from "../address.ts";
import { fileName, saveText } from "../charts/files.ts";
import { Rungs } from "../charts/rungs.tsx";
import { formatNumber, formatTime, plural, shorten } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { Decisions, SearchDecision as Decision, TrialRow } from "../types.ts";
import { Copy, Empty, Facts, Link, Notice, Panel, Shown } from "../ui/basics.tsx";

const KINDS: Record<string, string> = { promoted: "good", completed: "good", continued: "run", stopped: "warn", paused: "warn", failed: "bad", copied: "run" };

export function SearchView({ id, rows }: { id: number; rows: readonly TrialRow[] }) {
  const answer = useAnswer<Decisions>(`/api/experiments/${id}/decisions`);
  return <Shown answer={answer} what="the decisions">{(data) => <Search id={id} data={data} rows={rows} />}</Shown>;
}

function Search({ id, data, rows }: { id: number; data: Decisions; rows: readonly TrialRow[] }) {
  const { params } = useAddress();
  const decisions = useMemo(() => withFailures(data, rows), [data, rows]);
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
  const count = (action: string): number => past.filter((decision) => decision.action === action).length;
  const failed = rows.filter((row) => row.state === "ERROR").length;
  return (
    <>
      {data.problem && <Notice kind="warn" title="The decisions are shown as recorded, without their reasons."><span class="wrap">{data.problem}</span></Notice>}
      {total === 0 ? <Panel><Empty title="No decisions yet"><p>They appear when the search creates its first trial.</p></Empty></Panel> : (
        <>
          <Panel title={`Search by ${data.method}`} tools={data.rungs.length > 1 && (
            <label class="field">Bracket<select value={bracket ?? ""} onChange={(event) => setParams({ bracket: event.currentTarget.value })}><option value="">all</option>{data.rungs.map((lengths, index) => <option key={index} value={String(index)}>{index} ({lengths.join(", ")})</option>)}</select></label>
          )}>
            <div class="stack">
              <label class="row">Replay
                <input class="grow" type="range" min="0" max={total} value={step} aria-valuetext={`${step} of ${total} decisions`} onInput={(event) => setParams({ step: Number(event.currentTarget.value) === total ? null : event.currentTarget.value })} />
                <span class="number">{step} of {plural(total, "decision")}</span>
                {step < total && <button onClick={() => setParams({ step: null })}>To the end</button>}
              </label>
              <Facts items={[at?.time ? ["Now", formatTime(at.time, true)] : null, ["Created", count("created")], ["Promoted", count("promoted")], ["Stopped", count("stopped")], ["Failed", failed]]} />
              <Rungs decisions={seen} rungs={rungs} unit={data.time_metric} chosen={chosen} onPick={(trial) => setParams({ trial: trial === chosen ? null : String(trial) })} />
            </div>
          </Panel>
          <Panel flush title={chosen === null ? "Decisions, newest first" : `Decisions about trial ${chosen}`} tools={<>
            {chosen !== null && <button onClick={() => setParams({ trial: null })}>All trials</button>}
            {chosen !== null && <Link class="button" to={`/experiments/${id}?trial=${chosen}`}>Its curve</Link>}
            <Copy text={`det experiment decisions ${id}`} label="Copy as det" />
            <button onClick={() => saveText(toCsv(decisions), fileName(`decisions-${id}`, "csv"))}>CSV</button>
          </>}>
            <ol class="decisions" tabIndex={0} aria-label="Decisions">
              {listed.slice(0, 500).map((decision) => (
                <li key={decision.sequence}>
                  <span class="quiet number">{decision.sequence}</span>
                  <span class={`badge ${KINDS[decision.action] ?? ""}`}>{decision.action}</span>
                  {decision.trial !== null && <Link to={`/trials/${decision.trial}`}>trial {decision.trial}</Link>}
                  <span class="grow wrap">{decision.text}</span>
                  {decision.trial !== null && <Link to={`/experiments/${id}?trial=${decision.trial}`} label={`Curve of trial ${decision.trial}`}>curve</Link>}
                </li>
              ))}
            </ol>
          </Panel>
        </>
      )}
    </>
  );
}

/** The searcher does not learn how far a failed trial came, nor why it failed: its row says both. */
function withFailures(data: Decisions, rows: readonly TrialRow[]): Decision[] {
  const named = new Map(rows.map((row) => [row.id, row]));
  return data.decisions.map((decision) => {
    const row = decision.trial === null ? undefined : named.get(decision.trial);
    if (decision.action !== "failed" || decision.batches !== null || !row || data.time_metric !== "batches") return decision;
    return { ...decision, batches: row.batches, text: `batch ${formatNumber(row.batches)}: ${decision.text}${row.reason ? `: ${shorten(row.reason, 200)}` : ""}` };
  });
}

function toCsv(decisions: readonly Decision[]): string {
  const lines = decisions.map((one) => [one.sequence, one.trial ?? "", one.rung ?? "", one.batches ?? "", typeof one.metric === "number" ? formatNumber(one.metric) : one.metric ?? "", one.action, `"${one.text.replace(/"/g, '""')}"`].join(","));
  return `sequence,trial,rung,batches,metric,action,text\n${lines.join("\n")}\n`;
}
