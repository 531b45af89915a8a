// The queue of this machine.
import { firstLine, plural } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { QueueRows } from "../../generated/types.ts";
import { BulkActions } from "../actions/actions.tsx";
import { Copy, Empty, Link, Meter, Notice, Panel, Shown, State } from "../ui/basics.tsx";
import { Ago } from "../ui/clock.tsx";
import { TrialCounts } from "../ui/counts.tsx";
import { experimentCopies } from "./copies.ts";

export function QueuePage() {
  const answer = useAnswer<QueueRows>("/api/queue");
  const ids = answer.data?.rows.map((row) => row.experiment) ?? [];
  return (
    <>
      <div class="head"><h1 class="grow">Queue</h1><Copy text="det queue list" label="Copy as det" />{ids.length > 0 && <Copy text={experimentCopies(ids).python["these experiments"]!} label="Copy as Python" />}</div>
      <Shown answer={answer} what="the queue">{(data) => (
        <>
          {data.notes.map((note) => <Notice key={note}><span class="wrap">{note}</span></Notice>)}
          <Panel flush title={data.slots === null ? "Experiments" : `Experiments that share ${plural(data.slots, "slot")}`} tools={<span class={`badge ${data.served ? "good" : ""}`}>{data.served ? "served" : "not served"}</span>}>
            {data.rows.length === 0 ? <Empty title="The queue is empty"><p>Experiments wait here for free slots.</p><div class="row"><code>det experiment create CONFIG.yaml DIRECTORY --detach</code></div></Empty> : (
              <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
                <thead><tr><th class="right">Position</th><th>Experiment</th><th>State</th><th>Trials</th><th>Progress</th><th class="right">Priority</th><th>Slots</th><th class="right">Most slots</th><th class="right">Trials at once</th><th>Added</th><th>Owner</th><th><span class="hidden-text">Actions</span></th></tr></thead>
                <tbody>{data.rows.map((row) => (
                  <tr key={row.experiment}>
                    <td class="right">{row.position}</td><td><Link to={`/experiments/${row.experiment}`}>{row.experiment} <span class="name">{firstLine(row.name)}</span></Link></td><td><State state={row.state === "ACTIVE" && row.slots.length === 0 ? "QUEUED" : row.state} /></td>
                    <td><TrialCounts states={row.states} failures={`/failures?experiment=${row.experiment}`} /></td><td><Meter share={row.progress} state={row.state} /></td><td class="right">{row.priority}</td><td>{row.slots.length ? row.slots.join(", ") : <span class="quiet">waits</span>}</td>
                    <td class="right">{row.max_slots ?? "–"}</td><td class="right">{row.max_trials ?? "–"}</td><td><Ago time={row.added} /></td><td>{row.owner}</td>
                    <td><BulkActions ids={[row.experiment]} noun="experiment" actions={["pause", "cancel", "kill"]} /></td>
                  </tr>
                ))}</tbody>
              </table></div>
            )}
          </Panel>
        </>
      )}</Shown>
    </>
  );
}
