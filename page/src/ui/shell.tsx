// The frame of every page: navigation, the store, whether something runs, theme, keys.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { currentAddress } from "../address.ts";
import { exported, exportedPaths, getFile } from "../api.ts";
import { saveBlob } from "../charts/files.ts";
import { formatTime, sentence } from "../format.ts";
import { useLive } from "../live.ts";
import { Link, Notice } from "./basics.tsx";
import { KeysDialog, useKeys } from "./keys.tsx";
import { Menu, say, Toasts } from "./overlay.tsx";
import { applyTheme, toggleTheme } from "./theme.ts";

const PAGES = [["/runs", "Runs"], ["/failures", "Failures"], ["/queue", "Queue"], ["/models", "Models"]] as const;

/** An error boundary: an exception in one page is shown in its place; navigation and the other pages keep working. */
export class Boundary extends Component<{ children: ComponentChildren; about: string }, { error: unknown }> {
  override state = { error: null as unknown };

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
  }

  override componentDidUpdate(before: { about: string }): void {
    if (before.about !== this.props.about && this.state.error) this.setState({ error: null });
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <Notice kind="bad" role="alert" title="This part of the page could not be shown.">
        <span class="wrap">{String(this.state.error)}</span>
        <div class="row"><button onClick={() => this.setState({ error: null })}>Try again</button></div>
      </Notice>
    );
  }
}

async function exportView(): Promise<void> {
  const address = currentAddress();
  const query = address.params.toString();
  try {
    const file = await getFile("/api/export", { address: query ? `${address.path}?${query}` : address.path, requests: exportedPaths() });
    saveBlob(file.blob, file.name);
  } catch (error) {
    say(`Not exported: ${error instanceof Error ? error.message : String(error)}`, "bad");
  }
}

export function Shell({ path, children }: { path: string; children: ComponentChildren }) {
  const [help, setHelp] = useState(false);
  const live = useLive();
  useKeys(() => setHelp(true), toggleTheme);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const follow = (): void => applyTheme();
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  const section = path.startsWith("/experiments") || path.startsWith("/trials") || path.startsWith("/compare") ? "/runs" : path;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to content</a>
      <header class="bar">
        <Link to="/runs" class="brand" label="Determined: runs">
          <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#3b5bdb" /><path d="M7 8c2 10 6 15 18 16" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" /><path d="M7 14c3 6 7 8 18 5" fill="none" stroke="#ffd43b" stroke-width="3" stroke-linecap="round" /></svg>
          <span>Determined</span>
        </Link>
        <nav class="nav grow" aria-label="Pages">
          {PAGES.map(([to, text]) => <Link key={to} to={to} current={section === to || path.startsWith(`${to}/`)}>{text}</Link>)}
        </nav>
        <span class="live" title={live.store?.copied ? `${live.store.place}, which this user cannot write: it is copied now and then, a large one rarely` : live.store?.place}>
          <span class={live.problem ? "dot bad" : live.running ? "dot run" : "dot"} aria-hidden="true" />
          <span class="said">{exported ? `exported ${formatTime(exported.created)}` : live.problem ? "no answer" : live.store?.copied ? `as of ${formatTime(live.store.copied)}` : live.running ? `${live.running} running` : "idle"}</span>
        </span>
        {!exported && <button class="plain wide" onClick={() => void exportView()} title="Write this view as one HTML file">Export</button>}
        <button class="plain icon wide" onClick={toggleTheme} aria-label="Light or dark" title="Light or dark (t)">◐</button>
        <button class="plain icon wide" onClick={() => setHelp(true)} aria-label="Keys" title="Keys (?)">?</button>
        <span class="narrow"><Menu label={<><span aria-hidden="true">⋯</span><span class="hidden-text">More</span></>} title="Export, theme, keys">{(close) => (
          [["Export", () => void exportView()], ["Light or dark", toggleTheme], ["Keys", () => setHelp(true)]] as const).map(([name, act]) => (name !== "Export" || !exported) && (
          <button key={name} onClick={() => {
            close();
            act();
          }}>{name}</button>
        ))}</Menu></span>
      </header>
      <main id="main" tabIndex={-1}>
        {live.problem && <Notice kind="bad" role="alert" title={live.problem}>What is shown is what was last read.</Notice>}
        {live.store?.problem && <Notice kind="bad" role="alert" title="The store has a problem."><span class="wrap">{sentence(live.store.problem)}</span></Notice>}
        <Boundary about={path}>{children}</Boundary>
      </main>
      <Toasts />
      {help && <KeysDialog onClose={() => setHelp(false)} />}
    </>
  );
}
