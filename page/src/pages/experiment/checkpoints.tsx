// Checkpoints: sizes, files, who uses them, and whether their files are what was written.
import { useState } from "preact/hooks";
import { useActions } from "../../actions/actions.tsx";
import { ApiError, exported, post } from "../../api.ts";
import { ofTrials } from "../../charts/axes.ts";
import { formatBytes, formatCount, formatNumber, formatTime, formatValue, plural, toNumber } from "../../format.ts";
import { useAnswer } from "../../live.ts";
import type { ShownCheckpoint, ShownCheckpoints, Verified } from "../../../generated/types.ts";
import { Copy, Empty, ErrorNotice, Link, Notice, Panel, Shown, State } from "../../ui/basics.tsx";
import { Long } from "../../ui/long.tsx";

const MOST = 100;

/** The table of the checkpoints that a path returns; only those of trials in `only`, if it is given. */
export function CheckpointsTab({ path, only = null }: { path: string; only?: ReadonlySet<number> | null }) {
  const answer = useAnswer<ShownCheckpoints>(path);
  const [all, setAll] = useState(false);
  return (
    <Shown answer={answer} what="the checkpoints">{(data) => {
      const rows = ofTrials(data.rows, only);
      return <Panel flush title={title(rows)}>
        {rows.length === 0 ? <Empty title="No checkpoints yet"><p>A trial saves one at the end of its training, and wherever its configuration says.</p></Empty> : (
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
            <thead><tr><th>Checkpoint</th><th>Trial</th><th class="right">Batches</th><th class="right">Metric</th><th>State</th><th class="right">Size</th><th>Created</th><th>Used by</th><th><span class="hidden-text">Actions</span></th></tr></thead>
            <tbody>{rows.slice(0, all ? rows.length : MOST).map((row) => <Row key={row.id} row={row} />)}</tbody>
          </table></div>
        )}
        {rows.length > MOST && !all && <div class="table-foot"><button onClick={() => setAll(true)}>Show all {rows.length}</button></div>}
      </Panel>;
    }}</Shown>
  );
}

function title(rows: readonly ShownCheckpoint[]): string {
  const deleted = rows.filter((row) => row.state === "DELETED").length;
  const size = formatBytes(rows.reduce((sum, row) => sum + row.bytes, 0));
  return `${plural(rows.length - deleted, "checkpoint")}, ${size}${deleted ? `, and ${formatCount(deleted)} deleted` : ""}`;
}

function Row({ row }: { row: ShownCheckpoint }) {
  const [verified, setVerified] = useState<Verified | ApiError | "busy" | null>(null);
  const [files, setFiles] = useState(false);
  const { ask, dialog } = useActions();
  const verify = (): void => {
    setVerified("busy");
    post<Verified>(`/api/checkpoints/${row.id}/verify`, {}).then(setVerified,
      (error: unknown) => setVerified(error instanceof ApiError ? error : new ApiError(0, String(error), null)));
  };
  const used = [...row.used_by, ...row.registered.map((name) => `registered: ${name}`)];
  const gone = row.state !== "COMPLETED" && row.state !== "PARTIALLY_DELETED";
  return (
    <>
      <tr>
        <td><span class="row"><code title={row.storage}>{row.id.slice(0, 8)}</code>{row.best && <span class="badge good">best</span>}{row.incomplete.length > 0 && <span class="badge warn" title={row.incomplete.join(", ")}>incomplete</span>}{row.pickled.length > 0 && <span class="badge warn" title={row.pickled.join(", ")}>pickled</span>}</span></td>
        <td><Link to={`/trials/${row.trial}`}>{row.trial}</Link></td>
        <td class="right">{formatNumber(row.batches)}</td>
        <td class="right">{formatNumber(toNumber(row.metric))}</td>
        <td><State state={row.state} /></td>
        <td class="right">{formatBytes(row.bytes)}</td>
        <td class="time">{formatTime(row.created)}</td>
        <td>{used.length ? used.map((one) => <div key={one} class="name">{one}</div>) : <span class="quiet">nothing</span>}</td>
        <td><span class="row">
          <button aria-expanded={files} onClick={() => setFiles(!files)}>Contents</button>
          {!exported && !gone && <button disabled={verified === "busy"} onClick={verify}>{verified === "busy" ? "Verifying …" : "Verify now"}</button>}
          {!exported && !gone && <button onClick={() => ask({ action: "register", ids: [row.id], noun: "checkpoint" })}>Register</button>}
          {!exported && !gone && <button class="bad" onClick={() => ask({ action: "delete_checkpoint", ids: [row.id], noun: "checkpoint" })}>Delete</button>}
          <Copy text={row.id} label="Copy id" />
        </span>{dialog}</td>
      </tr>
      {verified !== null && verified !== "busy" && <tr><td colSpan={9}><Outcome verified={verified} /></td></tr>}
      {files && <tr><td colSpan={9}><Metadata metadata={row.metadata} />{row.files.length ? <table class="sheet"><tbody>{row.files.map((file) => <tr key={file.path}><td class="mono">{file.path}</td><td class="right">{formatBytes(file.bytes)}</td></tr>)}</tbody></table> : <span class="quiet">Its files were not recorded.</span>}</td></tr>}
    </>
  );
}

/** What the program stored with the checkpoint. */
function Metadata({ metadata }: { metadata: ShownCheckpoint["metadata"] }) {
  const items = Object.entries(metadata);
  if (items.length === 0) return null;
  return <table class="sheet"><tbody>{items.map(([name, value]) => <tr key={name}><td class="mono"><Long text={name} most={160} /></td><td class="mono wrap"><Long text={formatValue(value)} /></td></tr>)}</tbody></table>;
}

/** The result of a verification in words; without stored hashes, as of programs of the Core API, only names and sizes are compared. */
export function verdict(verified: Verified): { kind: string; title: string; text: string } {
  if (!verified.found) return { kind: "warn", title: "Not found on this machine", text: "Its files may be on the machine that trained it, or were removed." };
  if (!verified.ok) return { kind: "bad", title: "This checkpoint is damaged.", text: "" };
  const files = `${plural(verified.files, "file")}, ${formatBytes(verified.bytes)}`;
  if (verified.hashed) return { kind: "good", title: "Undamaged", text: `${files}: read, and equal to the hashes that were stored with the checkpoint.` };
  return { kind: "warn", title: "Complete; the contents were not compared", text: `${files}: all names and sizes are as recorded. Checkpoints that a program saves with the Core API have no hashes.` };
}

function Outcome({ verified }: { verified: Verified | ApiError }) {
  if (verified instanceof ApiError) return <ErrorNotice error={verified} />;
  const { kind, title, text } = verdict(verified);
  return <Notice kind={kind} role={verified.ok ? "status" : "alert"} title={title}>{verified.problems.map((problem) => <div key={problem} class="wrap">{problem}</div>)}{text}</Notice>;
}
