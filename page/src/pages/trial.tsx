// One trial: its head, its tabs.
import { useMemo } from "preact/hooks";
import { ActionMenu, CopyMenu } from "../actions/actions.tsx";
import { go, useTabs } from "../address.ts";
import { Swatch } from "../charts/palette.tsx";
import { firstLine, formatBytes, formatDuration, formatNumber, formatTime, formatValue, toNumber } from "../format.ts";
import { useAnswer } from "../live.ts";
import { LogView } from "../logs/log_view.tsx";
import { isFailed } from "../states.ts";
import type { TrialDetail } from "../../generated/types.ts";
import { Copy, Empty, Facts, Link, Meter, Notice, Panel, Shown, State, Tabs, Tags } from "../ui/basics.tsx";
import { Duration } from "../ui/clock.tsx";
import { Long } from "../ui/long.tsx";
import { CheckpointsTab } from "./experiment/checkpoints.tsx";
import { MetricsTab } from "./trial/metrics.tsx";
import { ProfileTab } from "./trial/profile.tsx";

const TABS = [["metrics", "Metrics"], ["hparams", "Hyperparameters"], ["attempts", "Attempts"], ["checkpoints", "Checkpoints"], ["profile", "Profile"], ["log", "Log"]] as const;

export function TrialPage({ id }: { id: number }) {
  const answer = useAnswer<TrialDetail>(`/api/trials/${id}`);
  return <Shown answer={answer} what={`trial ${id}`}>{(detail) => <Trial detail={detail} />}</Shown>;
}

function Trial({ detail }: { detail: TrialDetail }) {
  const { row } = detail;
  const { tab, address } = useTabs(`/trials/${row.id}`, "metrics");
  const place = useMemo(() => ({ trial: row.id }), [row.id]);
  return (
    <>
      <Head detail={detail} />
      <Tabs label="Parts of the trial" tabs={TABS} current={tab} address={address} />
      {tab === "log" ? <LogView key={row.id} place={place} />
        : tab === "checkpoints" ? <CheckpointsTab path={`/api/trials/${row.id}/checkpoints`} />
        : tab === "hparams" ? <Hparams detail={detail} />
        : tab === "attempts" ? <Attempts detail={detail} />
        : tab === "profile" ? <ProfileTab detail={detail} />
        : <MetricsTab detail={detail} />}
    </>
  );
}

function Head({ detail }: { detail: TrialDetail }) {
  const { row } = detail;
  const done = (created: number | null): void => {
    if (created !== null) go(`/experiments/${created}`);
  };
  return (
    <>
      <div class="head">
        <div class="grow">
          <div class="crumbs"><Link to="/runs">Runs</Link> / <Link to={`/experiments/${row.experiment}`}><span class="name">{firstLine(row.experiment_name)}</span> ({row.experiment})</Link></div>
          <div class="title"><h1><Swatch trial={row.id} /> Trial {row.id}</h1><State state={row.state} pending={row.pending} reason={row.reason} /><Tags tags={row.labels} /></div>
        </div>
        <div class="row">
          <CopyMenu commands={detail.commands} python={detail.python} />
          {detail.goal !== null && <Link class="button" to={`/experiments/${row.experiment}?tab=search&trial=${row.id}`}>Decisions</Link>}
          <Link class="button" to={`/compare?trials=${row.id}`}>Compare</Link>
          <ActionMenu actions={detail.actions} base={{ ids: [row.id], noun: "trial", done }} extra={{ fork: { ids: [row.experiment], noun: "experiment", hparams: row.hparams, fixed: detail.alone, note: detail.alone_note } }} />
        </div>
      </div>
      {(detail.reason ?? row.reason) && <Notice kind={isFailed(row.state) ? "bad" : ""} title={isFailed(row.state) ? "The trial failed." : "Why it ended"}><pre><Long text={detail.reason ?? row.reason ?? ""} most={2000} /></pre></Notice>}
      <section class="panel"><div class="panel-body"><Facts items={[
        ["Best", <span class="big number">{formatNumber(toNumber(row.best))}</span>],
        ["Latest", formatNumber(toNumber(row.latest))],
        ["Metric", row.metric ?? "–"],
        row.progress === null ? null : ["Progress", <Meter share={row.progress} state={row.state} />],
        ["Batches", detail.goal === null ? formatNumber(row.batches) : `${formatNumber(row.batches)} of ${formatNumber(detail.goal)}`],
        ["Duration", <Duration row={row} />],
        ["Restarts", row.restarts],
        ["Checkpoints", `${row.checkpoints}, ${formatBytes(row.checkpoint_bytes)}`],
        detail.status ? ["Status", detail.status] : null,
        ["Started", formatTime(row.started)],
        row.host ? ["Host", row.host] : null,
        ["Seed", detail.seed],
        detail.git_commit ? ["Commit", <code>{detail.git_commit.slice(0, 12)}</code>] : null,
        detail.source_checkpoint ? ["Started from", <code title={detail.source_checkpoint}>{detail.source_checkpoint.slice(0, 8)}</code>] : null,
      ]} /></div></section>
    </>
  );
}

function Hparams({ detail }: { detail: TrialDetail }) {
  const names = Object.keys(detail.row.hparams).sort();
  const differing = new Set(detail.row.differing_hparams);
  const metadata = Object.entries(detail.metadata);
  return (
    <div class="two">
      <Panel flush title="Hyperparameters" tools={names.length > 0 && <Copy text={JSON.stringify(detail.row.hparams, null, 2)} label="Copy as JSON" />}>
        {names.length === 0 ? <Empty title="No hyperparameters" /> : (
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
            <thead><tr><th>Name</th><th>Value</th>{differing.size > 0 && <th>Assigned by the search</th>}</tr></thead>
            <tbody>{names.map((name) => (
              <tr key={name} class={differing.has(name) ? "differs" : undefined}><td class="mono"><Long text={name} most={160} /></td><td class="mono wrap"><Long text={formatValue(detail.row.hparams[name])} /></td>{differing.size > 0 && <td class="mono wrap"><Long text={differing.has(name) ? formatValue(detail.assigned_hparams[name]) : ""} /></td>}</tr>
            ))}</tbody>
          </table></div>
        )}
      </Panel>
      <div class="stack">
        {detail.command && <Panel title="Command" tools={<Copy text={detail.command} label="Copy" />}><pre class="lines">{detail.command}</pre></Panel>}
        {metadata.length > 0 && <Panel flush title="Metadata"><table class="sheet"><tbody>{metadata.map(([name, value]) => <tr key={name}><td class="mono"><Long text={name} most={160} /></td><td class="wrap"><Long text={formatValue(value)} /></td></tr>)}</tbody></table></Panel>}
        {detail.outputs.length > 0 && <Panel flush title="Outputs"><table class="sheet"><tbody>{detail.outputs.map((file) => <tr key={file.path}><td class="mono">{file.path}</td><td class="right">{formatBytes(file.bytes)}</td></tr>)}</tbody></table></Panel>}
      </div>
    </div>
  );
}

function Attempts({ detail }: { detail: TrialDetail }) {
  return (
    <Panel flush title="Attempts">
      {detail.attempts.length === 0 ? <Empty title="It has not started yet" /> : (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
          <thead><tr><th class="right">Attempt</th><th>State</th><th>Started</th><th class="right">Duration</th><th class="right">First batch</th><th class="right">Last batch</th><th>From checkpoint</th><th>Why it ended</th><th>Host</th></tr></thead>
          <tbody>{detail.attempts.map((attempt) => (
            <tr key={attempt.number}>
              <td class="right">{attempt.number}</td><td><State state={attempt.why_ended && attempt.state === "running" ? "lost" : attempt.state} /></td><td>{formatTime(attempt.started, true)}</td>
              <td class="right">{attempt.ended !== null && attempt.started !== null ? formatDuration(attempt.ended - attempt.started) : "–"}</td>
              <td class="right">{formatNumber(attempt.first_batch)}</td><td class="right">{formatNumber(attempt.last_batch)}</td><td><code>{attempt.checkpoint?.slice(0, 8) ?? "–"}</code></td>
              <td class="wrap"><Long text={attempt.why_ended ?? "–"} />{attempt.exit_code !== null && ` (exit code ${attempt.exit_code})`}</td><td>{attempt.host}</td>
            </tr>
          ))}</tbody>
        </table></div>
      )}
    </Panel>
  );
}
