// The notes of an experiment.
import { useState } from "preact/hooks";
import { rejected, run, sayRejected } from "../../actions/run.ts";
import { exported } from "../../api.ts";
import type { ExperimentDetail } from "../../../generated/types.ts";
import { Empty, Panel } from "../../ui/basics.tsx";

/** Changed notes that were not saved yet, by experiment: they are there again after a visit of another tab. */
const drafts = new Map<number, string>();

/** Lets the browser ask before the page is closed and forgets them. */
function askFirst(event: Event): void {
  event.preventDefault();
}

function keepDraft(id: number, text: string | null): void {
  if (text === null) drafts.delete(id);
  else drafts.set(id, text);
  if (drafts.size > 0) window.addEventListener("beforeunload", askFirst);
  else window.removeEventListener("beforeunload", askFirst);
}

export function NotesTab({ detail }: { detail: ExperimentDetail }) {
  const id = detail.row.id;
  const [text, setState] = useState<string | null>(drafts.get(id) ?? null);
  const setText = (next: string | null): void => {
    keepDraft(id, next === detail.notes ? null : next);
    setState(next);
  };
  const [busy, setBusy] = useState(false);
  const save = (): void => {
    setBusy(true);
    void run("note", [id], { text: text ?? "" }).then((outcome) => {
      setBusy(false);
      sayRejected("note", outcome);
      if (!outcome.error && rejected(outcome).length === 0) setText(null);
    });
  };
  if (text !== null) {
    return (
      <Panel title="Notes" tools={<><button onClick={() => setText(null)}>Discard</button><button class="main" disabled={busy} onClick={save}>Save</button></>}>
        <textarea aria-label="Notes" rows={16} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </Panel>
    );
  }
  return (
    <Panel title="Notes" tools={!exported && <button onClick={() => setText(detail.notes)}>Edit</button>}>
      {detail.notes ? <p class="wrap">{detail.notes}</p> : <Empty title="No notes"><p>What was tried here, and what came of it?</p></Empty>}
    </Panel>
  );
}
