// The dialogs of actions, which ask for input or for confirmation.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, post } from "../api.ts";
import { formatBytes, formatCount, formatValue, plural, sentence, shorten } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { ModelRows, Preview } from "../../generated/types.ts";
import { ErrorNotice } from "../ui/basics.tsx";
import { Dialog } from "../ui/overlay.tsx";
import { ACTION_NAMES, rejected, run, sayRejected, type Options, type Outcome } from "./run.ts";

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

function titleOf({ action, ids, noun }: Asked): string {
  return `${ACTION_NAMES[action] ?? action}: ${ids.length === 1 ? `${noun} ${ids[0]}` : plural(ids.length, noun)}`;
}

export function ActionDialog({ asked, onClose }: { asked: Asked; onClose: () => void }) {
  const { action, ids } = asked;
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const closed = useRef(false);
  useEffect(() => () => void (closed.current = true), []);
  const carryOut = (options: Options): void => {
    setBusy(true);
    void run(action, ids, options).then((next) => {
      if (closed.current) return sayRejected(action, next);
      setBusy(false);
      setOutcome(next);
      const bad = rejected(next).length;
      if (next.error || bad === next.results.length) return; // The form stays, so that the input can be corrected.
      if (bad === 0) onClose();
      asked.done?.(next.results.find((result) => result.created != null)?.created ?? null);
    });
  };
  if (outcome && !outcome.error && rejected(outcome).length < outcome.results.length) return <ResultsDialog asked={asked} outcome={outcome} onClose={onClose} />;
  const shared = { asked, onClose, busy, carryOut };
  return (
    <Dialog title={titleOf(asked)} onClose={onClose}>
      {outcome?.error && <ErrorNotice error={outcome.error} />}
      {outcome && rejected(outcome).length > 0 && <Rejected asked={asked} outcome={outcome} />}
      {action === "delete" || action === "delete_checkpoint" ? <Deletion {...shared} />
        : action in TEXT_LABELS ? <TextForm {...shared} />
        : action === "fork" || action === "continue" || action === "extend" ? <Settings {...shared} />
        : <Confirm {...shared} />}
    </Dialog>
  );
}

/** What an action on several things did, and why it was rejected for some of them. */
export function ResultsDialog({ asked, outcome, onClose }: { asked: Asked; outcome: Outcome; onClose: () => void }) {
  const done = outcome.results.length - rejected(outcome).length;
  return (
    <Dialog title={titleOf(asked)} onClose={onClose}>
      <p>{done === 0 ? "Rejected for all of them." : `Done for ${formatCount(done)} of ${formatCount(outcome.results.length)}; rejected for the others.`}</p>
      <Rejected asked={asked} outcome={outcome} />
      <div class="buttons"><button class="main" onClick={onClose}>Close</button></div>
    </Dialog>
  );
}

function Rejected({ asked, outcome }: { asked: Asked; outcome: Outcome }) {
  const one = asked.ids.length === 1;
  return (
    <div class="notice bad rejected" role="alert" tabIndex={0}><div>{rejected(outcome).map(({ id, message }) => (
      <div key={id} class="wrap">{sentence(one ? message : `${asked.noun} ${id}: ${message}`)}</div>
    ))}</div></div>
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
  const look = (): void => {
    setError(null);
    post<Preview>("/api/actions/preview", { action: asked.action, ids: asked.ids }).then(setPreview,
      (problem: unknown) => setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem), null)));
  };
  useEffect(look, []);
  if (!preview) {
    return (
      <>
        {error ? <ErrorNotice error={error} again={look} /> : <div class="loading" role="status"><span>Looking up what would be deleted …</span></div>}
        <div class="buttons"><button onClick={onClose}>Close</button></div>
      </>
    );
  }
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
      <Buttons onClose={onClose} busy={busy} name={preview.bytes ? `Delete ${formatBytes(preview.bytes)}` : "Delete"} bad />
    </form>
  );
}
