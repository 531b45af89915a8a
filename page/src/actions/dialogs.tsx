// The dialogs of actions, which ask for input or for confirmation.
import { useEffect, useState } from "preact/hooks";
import { ApiError, post } from "../api.ts";
import { formatBytes, formatCount, formatValue, plural, sentence, shorten } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { ModelRows, Preview } from "../types.ts";
import { ErrorNotice } from "../ui/basics.tsx";
import { Dialog } from "../ui/overlay.tsx";
import { ACTION_NAMES, run, type Options } from "./run.ts";

export interface Asked {
  action: string;
  ids: readonly (number | string)[];
  noun: string;
  text?: string;
  hparams?: { [name: string]: unknown };
  /** Settings of a fork in addition to those that the user types. */
  fixed?: readonly string[];
  /** What the user has to know about these settings. */
  note?: string | null;
  /** The texts to choose from, such as the labels to remove. */
  choices?: readonly string[];
  /** How many trials the search has now. */
  trials?: number;
  done?: (created: number | null) => void;
}

const EXPLAINED: Record<string, string> = {
  cancel: "Its trials save a checkpoint and end. A canceled experiment can be continued.",
  kill: "Its processes end at once, without a checkpoint. What was trained since the last one is lost.",
  kill_trial: "Its processes end at once, without a checkpoint. What was trained since the last one is lost.",
};
const TEXT_LABELS: Record<string, string> = {
  label: "Label", unlabel: "Label", rename: "New name", describe: "Description", note: "Notes", register: "Name of the model",
};

export function needsDialog(action: string): boolean {
  return !["pause", "activate", "archive", "unarchive"].includes(action);
}

export function ActionDialog({ asked, onClose }: { asked: Asked; onClose: () => void }) {
  const { action, ids } = asked;
  const [busy, setBusy] = useState(false);
  const [rejected, setRejected] = useState<string[]>([]);
  const carryOut = (options: Options): void => {
    setBusy(true);
    void run(action, ids, options).then((results) => {
      setBusy(false);
      if (results === null) return;
      const bad = results.filter((result) => !result.ok);
      setRejected(bad.map((result) => (ids.length === 1 ? result.message : `${asked.noun} ${result.id}: ${result.message}`)));
      if (bad.length === results.length) return; // The dialog stays open, so that the input can be corrected.
      onClose();
      asked.done?.(results.find((result) => result.created != null)?.created ?? null);
    });
  };
  const shared = { asked, onClose, busy, carryOut };
  const title = `${ACTION_NAMES[action] ?? action}: ${ids.length === 1 ? `${asked.noun} ${ids[0]}` : plural(ids.length, asked.noun)}`;
  return (
    <Dialog title={title} onClose={onClose}>
      {rejected.length > 0 && <div class="notice bad" role="alert"><div>{rejected.slice(0, 20).map((why) => <div key={why} class="wrap">{sentence(why)}</div>)}</div></div>}
      {action === "delete" || action === "delete_checkpoint" ? <Deletion {...shared} />
        : action in TEXT_LABELS ? <TextForm {...shared} />
        : action === "fork" || action === "continue" || action === "extend" ? <Settings {...shared} />
        : <Confirm {...shared} />}
    </Dialog>
  );
}

interface FormProps {
  asked: Asked;
  onClose: () => void;
  busy: boolean;
  carryOut: (options: Options) => void;
}

function Buttons({ onClose, busy, name, bad, disabled }: { onClose: () => void; busy: boolean; name: string; bad?: boolean; disabled?: boolean }) {
  return (
    <div class="buttons">
      <button type="button" onClick={onClose}>Close</button>
      <button type="submit" class={bad ? "bad" : "main"} disabled={busy || disabled}>{busy ? "Working …" : name}</button>
    </div>
  );
}

function Confirm({ asked, onClose, busy, carryOut }: FormProps) {
  return (
    <form onSubmit={(event) => { event.preventDefault(); carryOut({}); }}>
      <p>{EXPLAINED[asked.action] ?? ""}</p>
      <Buttons onClose={onClose} busy={busy} name={ACTION_NAMES[asked.action] ?? asked.action} bad />
    </form>
  );
}

function TextForm({ asked, onClose, busy, carryOut }: FormProps) {
  const [text, setText] = useState(asked.text ?? "");
  const long = asked.action === "note" || asked.action === "describe";
  const optional = long;
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      carryOut({ text, ...(asked.action === "register" ? { create_model: true } : {}) });
    }}>
      <label class="block">{TEXT_LABELS[asked.action]}
        {long ? <textarea value={text} rows={10} onInput={(event) => setText(event.currentTarget.value)} />
          : asked.choices ? <select value={text} autofocus required onChange={(event) => setText(event.currentTarget.value)}><option value="">choose …</option>{asked.choices.map((choice) => <option key={choice} value={choice}>{shorten(choice, 80)}</option>)}</select>
          : <input value={text} autofocus required list={asked.action === "register" ? "model-names" : undefined} onInput={(event) => setText(event.currentTarget.value)} />}
      </label>
      {asked.action === "register" && <ModelNames />}
      <Buttons onClose={onClose} busy={busy} name="Save" disabled={!optional && text.trim() === ""} />
    </form>
  );
}

/** The existing models; any other name creates a new model. */
function ModelNames() {
  const { data } = useAnswer<ModelRows>("/api/models", false);
  return (
    <>
      <datalist id="model-names">{data?.rows.map((row) => <option key={row.id} value={row.name} />)}</datalist>
      <p class="quiet">A new name creates a model; a known one gets another version.</p>
    </>
  );
}

/** Changed settings: a fork starts from the trial's hyperparameters, each of which can be changed. */
function Settings({ asked, onClose, busy, carryOut }: FormProps) {
  const [values, setValues] = useState<Record<string, string>>({});
  const [more, setMore] = useState("");
  const [trials, setTrials] = useState("");
  const names = Object.entries(asked.hparams ?? {});
  const submit = (event: Event): void => {
    event.preventDefault();
    const config = [...(asked.fixed ?? [])];
    config.push(...Object.entries(values).filter(([, value]) => value !== "").map(([name, value]) => `hyperparameters.${name}=${value}`));
    config.push(...more.split("\n").map((line) => line.trim()).filter((line) => line !== ""));
    carryOut({ config, ...(trials ? { max_trials: Number(trials) } : {}) });
  };
  const extend = asked.action === "extend";
  return (
    <form onSubmit={submit}>
      {extend && <label class="block">Trials in all{asked.trials !== undefined && `, ${formatCount(asked.trials)} until now`}<input type="number" min="1" required value={trials} onInput={(event) => setTrials(event.currentTarget.value)} /></label>}
      {!extend && names.length > 0 && <p class="quiet">A hyperparameter that is left empty keeps its value.</p>}
      {!extend && asked.note && <div class="notice warn"><div class="wrap">{asked.note}</div></div>}
      {!extend && names.map(([name, value]) => (
        <label class="block" key={name}><span class="name">{name}</span>
          <input placeholder={shorten(formatValue(value), 200)} value={values[name] ?? ""} onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })} />
        </label>
      ))}
      {!extend && (
        <label class="block">Other settings, one KEY=VALUE a line
          <textarea value={more} placeholder="searcher.max_length.batches=2000" rows={3} onInput={(event) => setMore(event.currentTarget.value)} />
        </label>
      )}
      <p class="quiet">It is put into the queue of this machine: closing the page ends nothing.</p>
      <Buttons onClose={onClose} busy={busy} name={ACTION_NAMES[asked.action] ?? asked.action} />
    </form>
  );
}

/** Lists what would be deleted, with sizes, and asks for confirmation. */
function Deletion({ asked, onClose, busy, carryOut }: FormProps) {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    post<Preview>("/api/actions/preview", { action: asked.action, ids: asked.ids }).then(setPreview,
      (problem: unknown) => setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem), null)));
  }, []);
  if (error) return <ErrorNotice error={error} />;
  if (!preview) return <div class="loading" role="status"><span>Looking up what would be deleted …</span></div>;
  return (
    <form onSubmit={(event) => { event.preventDefault(); carryOut({}); }}>
      <p class="wrap">{preview.text}</p>
      {preview.refused.length > 0 && <div class="notice warn"><div>{preview.refused.map((why) => <div key={why} class="wrap">{why}</div>)}</div></div>}
      {preview.items.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="group" aria-label="Table"><table class="sheet">
          <thead><tr><th>What goes</th><th class="right">Size</th></tr></thead>
          <tbody>{preview.items.slice(0, 200).map((item) => <tr key={item.name}><td>{item.name}</td><td class="right">{formatBytes(item.bytes)}</td></tr>)}</tbody>
        </table></div>
      )}
      {preview.items.length > 200 && <p class="quiet">and {preview.items.length - 200} more</p>}
      <Buttons onClose={onClose} busy={busy} name={`Delete ${formatBytes(preview.bytes)}`} bad />
    </form>
  );
}
