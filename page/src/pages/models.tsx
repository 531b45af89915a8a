// The registry of models: all of them, or the versions of one.
import { formatBytes, formatNumber, formatTime, formatValue, shorten, toNumber } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { ModelDetail, ModelRows } from "../../generated/types.ts";
import { Copy, Empty, Facts, Link, Panel, Shown, Tags } from "../ui/basics.tsx";
import { Long } from "../ui/long.tsx";
import { python } from "./copies.ts";

export function ModelsPage() {
  const answer = useAnswer<ModelRows>("/api/models");
  return (
    <>
      <div class="head"><h1 class="grow">Models</h1><Copy text="det model list" label="Copy as det" /><Copy text={python("client.list_models()")} label="Copy as Python" /></div>
      <Shown answer={answer} what="the models">{({ rows }) => (
        <Panel flush>
          {rows.length === 0 ? <Empty title="No models are registered"><p>Register a checkpoint on its experiment's page to give it a name and a version.</p></Empty> : (
            <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
              <thead><tr><th>Model</th><th class="right">Versions</th><th>Description</th><th>Labels</th><th>Owner</th><th>Changed</th></tr></thead>
              <tbody>{rows.map((row) => (
                <tr key={row.id}><td><Link to={`/models/${row.id}`}><span class="name">{row.name}</span></Link>{row.archived && <span class="badge">archived</span>}</td><td class="right">{row.versions}</td><td><Long text={row.description} most={200} /></td><td><Tags tags={row.labels} /></td><td>{row.owner}</td><td>{formatTime(row.updated)}</td></tr>
              ))}</tbody>
            </table></div>
          )}
        </Panel>
      )}</Shown>
    </>
  );
}

export function ModelPage({ id }: { id: number }) {
  const answer = useAnswer<ModelDetail>(`/api/models/${id}`);
  return <Shown answer={answer} what="the model">{(data) => <Model data={data} />}</Shown>;
}

function Model({ data }: { data: ModelDetail }) {
  const { row, versions } = data;
  const command = `det model describe '${row.name.replace(/'/g, "'\\''")}'`;
  return (
    <>
      <div class="head">
        <div class="grow"><div class="crumbs"><Link to="/models">Models</Link> / {row.id}</div><div class="title"><h1 class="name">{row.name}</h1><Tags tags={row.labels} /></div>{row.description && <p class="quiet"><Long text={row.description} /></p>}</div>
        <Copy text={command} label="Copy as det" />
        <Copy text={python(`client.get_model(${JSON.stringify(row.name)})`)} label="Copy as Python" />
      </div>
      <Panel><Facts items={[["Owner", row.owner], ["Created", formatTime(row.created)], ["Changed", formatTime(row.updated)], ...Object.entries(row.metadata).map(([name, value]) => [shorten(name, 80), <Long text={formatValue(value)} most={200} />] as const)]} />{row.notes && <p><Long text={row.notes} most={2000} /></p>}</Panel>
      <Panel flush title="Versions">
        {versions.length === 0 ? <Empty title="No versions yet" /> : (
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
            <thead><tr><th class="right">Version</th><th>Name</th><th>Checkpoint</th><th>Trial</th><th class="right">Batches</th><th class="right">Metric</th><th class="right">Size</th><th>Created</th><th>Notes</th></tr></thead>
            <tbody>{versions.map((version) => (
              <tr key={version.number}><td class="right">{version.number}</td><td class="name">{shorten(version.name, 80)}</td><td><code title={version.checkpoint.id}>{version.checkpoint.id.slice(0, 8)}</code></td><td><Link to={`/trials/${version.checkpoint.trial}`}>{version.checkpoint.trial}</Link></td>
                <td class="right">{formatNumber(version.checkpoint.batches)}</td><td class="right">{formatNumber(toNumber(version.checkpoint.metric))}</td><td class="right">{formatBytes(version.checkpoint.bytes)}</td><td>{formatTime(version.created)}</td><td class="wrap"><Long text={version.notes} /></td></tr>
            ))}</tbody>
          </table></div>
        )}
      </Panel>
    </>
  );
}
