// Small parts that every page uses: states, notices, empty places, copying.
import { Fragment, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "../address.ts";
import type { ApiError } from "../api.ts";
import { formatPercent, sentence, shorten, toNumber, type Num } from "../format.ts";
import type { Answer } from "../live.ts";

const KINDS: Record<string, string> = {
  COMPLETED: "good", STOPPED_EARLY: "good", RUNNING: "run", ACTIVE: "run", STOPPING: "run", QUEUED: "idle", PAUSED: "warn",
  CANCELED: "idle", INVALID_HP: "bad", ERROR: "bad", FAILED: "bad", LOST: "bad", DELETE_FAILED: "bad", DELETED: "idle",
};
const SIGNS: Record<string, string> = { good: "✓", bad: "✕", run: "▸", warn: "‖", idle: "○" };

export function stateKind(state: string): string {
  return KINDS[state] ?? (state.startsWith("STOPPING") ? "run" : "idle");
}

export function stateText(state: string): string {
  return state.charAt(0).toUpperCase() + state.slice(1).toLowerCase().replace(/_/g, " ");
}

/** The state of something, with the request that waits to be carried out. A sign says the same as the colour. */
export function State({ state, pending, reason }: { state: string; pending?: string | null; reason?: string | null }) {
  const kind = stateKind(state.toUpperCase());
  return (
    <span class="row" title={reason ?? undefined}>
      <span class={`badge ${kind}`}><span aria-hidden="true">{SIGNS[kind]}</span>{stateText(state)}</span>
      {pending && <span class="badge warn" title="Requested; the runner has not carried it out yet.">{pending} pending</span>}
    </span>
  );
}

export function Meter({ share, state = "" }: { share: Num; state?: string }) {
  const value = toNumber(share);
  if (value === null || !Number.isFinite(value)) return <span class="quiet">–</span>;
  const kind = stateKind(state);
  return (
    <span class="number" title={formatPercent(value)}>
      <span class="meter" aria-hidden="true"><i class={kind} style={{ width: `${Math.min(100, Math.max(0, value * 100))}%` }} /></span>
      {" "}{formatPercent(value)}
    </span>
  );
}

export function Tags({ tags }: { tags: readonly string[] }) {
  return <>{tags.map((tag) => <Fragment key={tag}><span class="tag clip name">{tag}</span> </Fragment>)}</>;
}

/** A link inside the page: the browser's own ways to open it (new tab, copy) work as well. */
export function Link({ to, children, current, label, class: css }: {
  to: string; children: ComponentChildren; current?: boolean; label?: string; class?: string;
}) {
  return (
    <a href={to} class={css} aria-current={current ? "page" : undefined} aria-label={label} onClick={(event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      go(to);
    }}>{children}</a>
  );
}

export function Notice({ kind = "", title, children, role }: {
  kind?: string; title?: string; children?: ComponentChildren; role?: "alert" | "status";
}) {
  return <div class={`notice ${kind}`} role={role}><div class="grow">{title && <strong>{title}</strong>}{children}</div></div>;
}

export function ErrorNotice({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <div class="grow"><strong class="wrap">{sentence(error.message)}</strong>{error.hint && <span class="wrap">{sentence(error.hint)}</span>}</div>
      {again && <button onClick={again}>Try again</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <svg viewBox="0 0 44 44" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
        <path d="M6 6v32h32" stroke-linecap="round" /><path d="M12 28c6 0 6-12 12-12s5 7 12-4" stroke-linecap="round" stroke-dasharray="3 4" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Shows the content of an answer, or its error. After an error, the content of an earlier answer stays below it. */
export function Shown<T>({ answer, what, children }: {
  answer: Answer<T>; what: string; children: (data: T) => ComponentChildren;
}) {
  if (answer.data === null) {
    if (answer.error) return <ErrorNotice error={answer.error} again={answer.reload} />;
    return <div class="loading" role="status"><span>Loading {what} …</span></div>;
  }
  return <>{answer.error && <ErrorNotice error={answer.error} again={answer.reload} />}{children(answer.data)}</>;
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea"); // Without https a browser may refuse its clipboard.
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function Copy({ text, label, title }: { text: string; label: string; title?: string }) {
  const [said, setSaid] = useState("");
  return (
    <button title={title ?? shorten(text, 400)} onClick={() => void copyText(text).then((done) => {
      setSaid(done ? "Copied" : "Could not copy");
      setTimeout(() => setSaid(""), 1500);
    })}><span aria-live="polite">{said || label}</span></button>
  );
}

export function Facts({ items }: { items: (readonly [string, ComponentChildren] | null)[] }) {
  const shown = items.filter((item) => item !== null);
  return <dl class="facts">{shown.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Panel({ title, tools, children, flush }: {
  title?: ComponentChildren; tools?: ComponentChildren; children: ComponentChildren; flush?: boolean;
}) {
  return (
    <section class="panel">
      {(title || tools) && <div class="panel-head"><h2 class="grow">{title}</h2>{tools}</div>}
      {flush ? children : <div class="panel-body">{children}</div>}
    </section>
  );
}

export function Segments({ label, value, options, onChange }: {
  label: string; value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void;
}) {
  return (
    <span class="segments" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button key={name} aria-pressed={name === value} onClick={() => onChange(name)}>{text}</button>
      ))}
    </span>
  );
}

export function Tabs({ label, tabs, current, address }: {
  label: string; tabs: readonly (readonly [string, string])[]; current: string; address: (tab: string) => string;
}) {
  const bar = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    // On a phone the bar is wider than the screen. Only the bar scrolls: scrollIntoView would also move the page.
    const chosen = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (bar.current && chosen) bar.current.scrollLeft = chosen.offsetLeft - bar.current.offsetLeft - (bar.current.clientWidth - chosen.offsetWidth) / 2;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={bar}>
      {tabs.map(([name, text]) => <Link key={name} to={address(name)} current={name === current}>{text}</Link>)}
    </nav>
  );
}
