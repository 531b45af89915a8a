// The notes of an experiment.
import { useState } from "preact/hooks";
import { run } from "../../actions/run.ts";
import { exported } from "../../api.ts";
import type { ExperimentDetail } from "../../types.ts";
import { Empty, Panel } from "../../ui/basics.tsx";

export function NotesTab({ detail }: { detail: ExperimentDetail }) {
  const [text, setText] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const save = (): void => {
    setBusy(true);
    void run("note", [detail.row.id], { text: text ?? "" }).then((results) => {
      setBusy(false);
      if (results?.every((result) => result.ok)) setText(null);
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
