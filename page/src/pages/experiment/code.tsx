// The code of an experiment, and its difference to that of another one.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { setParams, useAddress } from "../../address.ts";
import { withQuery } from "../../api.ts";
import { formatBytes } from "../../format.ts";
import { useAnswer } from "../../live.ts";
import type { CodeDifference, CodeFiles, FileText } from "../../../generated/types.ts";
import { Copy, Empty, Notice, Panel, Shown } from "../../ui/basics.tsx";
import { Download } from "../../ui/download.tsx";

export function CodeTab({ id }: { id: number }) {
  const { params } = useAddress();
  const other = Number(params.get("other")) || null;
  const [typed, setTyped] = useState(params.get("other") ?? "");
  const answer = useAnswer<CodeFiles>(`/api/experiments/${id}/code`, false);
  const tools = (
    <form class="row" onSubmit={(event) => {
      event.preventDefault();
      setParams({ other: typed }, false);
    }}>
      <label class="field">Compare with experiment<input type="number" min="1" value={typed} style={{ width: "80px" }} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
      <button type="submit">Show the difference</button>
      {other !== null && <button type="button" onClick={() => {
        setTyped("");
        setParams({ other: null });
      }}>Show the code</button>}
    </form>
  );
  if (other !== null) return <Difference id={id} other={other} tools={tools} />;
  return (
    <Panel flush title="Code" tools={<>{tools}{!!answer.data?.files.length && <Download path={`/api/experiments/${id}/code/archive`} label="Download the code" title="All files as a gzipped tar archive" />}</>}>
      <Shown answer={answer} what="the code">{(data) => data.files.length === 0
        ? <Empty title="No code was recorded"><p>{data.note}</p></Empty>
        : <>{data.note && <div class="panel-body"><Notice>{data.note}</Notice></div>}<Files id={id} files={data.files} /></>}
      </Shown>
    </Panel>
  );
}

function Files({ id, files }: { id: number; files: CodeFiles["files"] }) {
  const { params } = useAddress();
  const path = params.get("file") ?? files.find((file) => file.path.endsWith(".py"))?.path ?? files[0]!.path;
  const answer = useAnswer<FileText>(withQuery(`/api/experiments/${id}/code/file`, { path }), false);
  return (
    <div class="split">
      <ul class="files">{files.map((file) => (
        <li key={file.path}><button aria-pressed={file.path === path} title={file.path} onClick={() => setParams({ file: file.path })}><span class="clip name">{file.path}</span><span class="quiet">{formatBytes(file.bytes)}</span></button></li>
      ))}</ul>
      <div>
        <Shown answer={answer} what={path}>{(file) => file.text === null
          ? <Empty title="Not shown"><p>{file.note}</p></Empty>
          : <><div class="toolbar"><span class="mono grow clip name">{path}</span><Copy text={file.text} label="Copy" title="Copy the file" /></div>{file.note && <Notice>{file.note}</Notice>}<pre class="code" tabIndex={0} role="region" aria-label={path}>{file.text}</pre></>}
        </Shown>
      </div>
    </div>
  );
}

function Difference({ id, other, tools }: { id: number; other: number; tools: ComponentChildren }) {
  const answer = useAnswer<CodeDifference>(`/api/experiments/${id}/code/diff?other=${other}`, false);
  return (
    <Panel title={`Code: ${other} → ${id}`} tools={tools}>
      <Shown answer={answer} what="the difference">{(data) => data.files.length === 0
        ? <Empty title="The code is the same"><p>{data.note}</p></Empty>
        : <div class="stack">{data.note && <Notice>{data.note}</Notice>}{data.files.map((file) => (
            <div key={file.path}><h3><span class="name">{file.path}</span> <FileStatus status={file.status} /></h3><Diff text={file.diff} /></div>
          ))}</div>}
      </Shown>
    </Panel>
  );
}

export function FileStatus({ status }: { status: CodeDifference["files"][number]["status"] }) {
  return <span class={`badge ${status === "removed" ? "bad" : status === "added" ? "good" : "warn"}`}>{status}</span>;
}

function Diff({ text }: { text: string }) {
  const css = (line: string): string | undefined =>
    line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++") ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : undefined;
  return <pre class="code" tabIndex={0} role="region" aria-label="Difference">{text.split("\n").map((line, at) => <span key={at} class={css(line)}>{line}{css(line) ? "" : "\n"}</span>)}</pre>;
}
