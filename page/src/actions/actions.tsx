// Buttons and menus of actions, for one experiment or for a selection.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { exported } from "../api.ts";
import { shorten } from "../format.ts";
import type { ActionState } from "../../generated/types.ts";
import { copyText } from "../ui/basics.tsx";
import { Menu, say } from "../ui/overlay.tsx";
import { ActionDialog, needsDialog, ResultsDialog, type Asked } from "./dialogs.tsx";
import { ACTION_NAMES, rejected, run, sayRejected, type Outcome } from "./run.ts";

const BAD = new Set(["kill", "kill_trial", "delete", "delete_checkpoint"]);

/** Opens the dialog of an action, or carries it out at once if it needs no input and can be undone. */
export function useActions(): { ask: (asked: Asked) => void; dialog: ComponentChildren } {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [ended, setEnded] = useState<{ asked: Asked; outcome: Outcome } | null>(null);
  const close = (): void => {
    setAsked(null);
    setEnded(null);
  };
  const carryOut = async (next: Asked): Promise<void> => {
    const outcome = await run(next.action, next.ids);
    const bad = rejected(outcome).length;
    if (bad > 0 && next.ids.length > 1) setEnded({ asked: next, outcome });
    else sayRejected(next.action, outcome);
    if (outcome.error === null && bad < next.ids.length) next.done?.(null);
  };
  return {
    ask: (next) => {
      if (needsDialog(next.action)) setAsked(next);
      else void carryOut(next);
    },
    dialog: asked ? <ActionDialog asked={asked} onClose={close} /> : ended && <ResultsDialog {...ended} onClose={close} />,
  };
}

/** The actions of one experiment or trial; those that cannot be requested now say why. */
export function ActionMenu({ actions, base, extra = {} }: {
  actions: readonly ActionState[]; base: Omit<Asked, "action">; extra?: Record<string, Partial<Asked>>;
}) {
  const { ask, dialog } = useActions();
  if (exported || actions.length === 0) return null;
  const direct = actions.filter((action) => action.enabled && ["pause", "activate"].includes(action.name));
  return (
    <>
      {direct.map(({ name }) => (
        <button key={name} onClick={() => ask({ ...base, ...extra[name], action: name })}>{ACTION_NAMES[name]}</button>
      ))}
      <Menu label="Actions">
        {(close) => actions.filter((action) => !direct.includes(action)).map((action) => (
          <button key={action.name} class={BAD.has(action.name) ? "bad" : ""} disabled={!action.enabled} title={action.why_not ?? undefined} onClick={() => {
            close();
            ask({ ...base, ...extra[action.name], action: action.name });
          }}><span>{ACTION_NAMES[action.name] ?? action.name}{!action.enabled && action.why_not && <span class="quiet"><br />{action.why_not}</span>}</span></button>
        ))}
      </Menu>
      {dialog}
    </>
  );
}

/** Actions on a selection of experiments. */
export function BulkActions({ ids, noun, actions }: { ids: readonly number[]; noun: string; actions: readonly string[] }) {
  const { ask, dialog } = useActions();
  if (exported) return null;
  return (
    <>
      <Menu label="Actions" left>
        {(close) => actions.map((action) => (
          <button key={action} class={BAD.has(action) ? "bad" : ""} onClick={() => {
            close();
            ask({ action, ids, noun });
          }}>{ACTION_NAMES[action]}{ids.length > 1 ? ` (${ids.length})` : ""}</button>
        ))}
      </Menu>
      {dialog}
    </>
  );
}

/** "Copy as det" and "copy as Python" of a view. */
export function CopyMenu({ commands, python }: { commands: { [name: string]: string }; python: { [name: string]: string } }) {
  return (
    <Menu label="Copy">
      {(close) => ([["Copy as det", commands], ["Copy as Python", python]] as const).flatMap(([title, texts]) => [
        <h3 key={title}>{title}</h3>,
        ...Object.entries(texts).map(([name, text]) => (
          <button key={title + name} title={shorten(text, 400)} onClick={() => {
            close();
            void copyText(text).then((done) => say(done ? `Copied: ${shorten(text, 400)}` : "The browser did not allow copying.", done ? "" : "bad"));
          }}><span class="grow">{name}<br /><span class="quiet mono">{shorten(text.split("\n")[0] ?? "", 46)}</span></span></button>
        )),
      ])}
    </Menu>
  );
}
