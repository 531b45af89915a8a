// Failed trials grouped by their error, with the hyperparameters that they share and others do not.
import { CopyMenu } from "../actions/actions.tsx";
import { setParams, useAddress } from "../address.ts";
import { firstLine, formatCount, plural, sentence, shorten } from "../format.ts";
import { useAnswer } from "../live.ts";
import { Pieces } from "../logs/pieces.tsx";
import type { ExperimentRows, FailureGroup, Failures } from "../../generated/types.ts";
import { Copy, Empty, Link, Panel, Shown } from "../ui/basics.tsx";
import { Long } from "../ui/long.tsx";
import { trialCopies } from "./copies.ts";
import { compareAddress } from "./runs.tsx";

export function FailuresPage() {
  const { params } = useAddress();
  const experiment = params.get("experiment");
  const answer = useAnswer<Failures>(experiment ? `/api/failures?experiment=${experiment}` : "/api/failures");
  return (
    <>
      <div class="head"><h1 class="grow">Failures{experiment && ` of experiment ${experiment}`}</h1><ExperimentSelect value={experiment ?? ""} /></div>
      <Shown answer={answer} what="the failures">{({ groups }) => groups.length === 0
        ? <Panel><Empty title="Nothing failed"><p>Trials that end with an error are grouped here by what went wrong.</p></Empty></Panel>
        : <>
            <p class="quiet">{plural(groups.reduce((sum, group) => sum + group.trials.length, 0), "failed trial")}, {groups.length === 1 ? "one error" : `${formatCount(groups.length)} different errors`}.</p>
            {groups.map((group) => <Group key={JSON.stringify([group.error, group.file, group.line])} group={group} />)}
          </>}
      </Shown>
    </>
  );
}

function ExperimentSelect({ value }: { value: string }) {
  const answer = useAnswer<ExperimentRows>("/api/experiments");
  const failed = (answer.data?.rows ?? []).filter((row) => row.failed > 0 || String(row.id) === value);
  return (
    <label class="field">Experiment
      <select value={value} onChange={(event) => setParams({ experiment: event.currentTarget.value }, false)}>
        <option value="">all</option>{failed.map((row) => <option key={row.id} value={String(row.id)}>{row.id} {shorten(firstLine(row.name), 40)} ({row.failed} of {row.trials})</option>)}
      </select>
    </label>
  );
}

function Group({ group }: { group: FailureGroup }) {
  return (
    <section class="panel">
      <div class="panel-head">
        <span class="badge bad">{formatCount(group.trials.length)}</span>
        <h2 class="grow wrap">{shorten(group.error, 400)}</h2>
        {group.file && <code>{group.file}{group.line !== null && `:${group.line}`}</code>}
        <CopyMenu {...trialCopies(group.trials)} />
        <Link class="button" to={compareAddress(group.trials)}>Compare</Link>
      </div>
      <div class="panel-body stack">
        <div class="row"><span class="quiet">Trials</span>{group.trials.slice(0, 40).map((id) => <Link key={id} to={`/trials/${id}`}>{id}</Link>)}{group.trials.length > 40 && <span class="quiet">and {group.trials.length - 40} more</span>}</div>
        {group.shared.length > 0 && (
          <div><h3>What they share, and others do not</h3>
            <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
              <thead><tr><th>Hyperparameter</th><th class="right">Of these</th><th class="right">Of the others</th></tr></thead>
              <tbody>{group.shared.map((one) => <tr key={one.name}><td class="mono">{one.text}</td><td class="right">{one.in_group}</td><td class="right">{one.elsewhere}</td></tr>)}</tbody>
            </table></div>
          </div>
        )}
        {group.example && group.example !== group.error && <details><summary>The error of trial {group.trials[0]}</summary><pre class="lines" tabIndex={0} role="region" aria-label="Error"><Long text={group.example} most={4000} /></pre></details>}
        {group.last_lines.length > 0 && <div><h3>Last lines of its log</h3><pre class="lines" tabIndex={0} role="region" aria-label="Last lines">{group.last_lines.map((line, at) => <span key={at}><Pieces text={shorten(line, 600)} />{"\n"}</span>)}</pre><Link to={`/trials/${group.trials[0]}?tab=log`}>The whole log</Link></div>}
        {group.command && <div><h3>Try one again</h3><div class="copy-line"><code tabIndex={0}>{group.command}</code><Copy text={group.command} label="Copy as det" /></div>{group.command_note && <p class="quiet">{sentence(group.command_note)}</p>}</div>}
      </div>
    </section>
  );
}
