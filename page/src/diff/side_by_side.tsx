// The difference of two texts in two columns, with the changed parts of lines marked.
import { useMemo } from "preact/hooks";
import { Notice } from "../ui/basics.tsx";
import { parseDiff, type DiffRow, type Side } from "./rows.ts";

export function SideBySide({ diff, path, left, right }: { diff: string; path: string; left: string; right: string }) {
  const { hunks, note } = useMemo(() => parseDiff(diff), [diff]);
  return (
    <>
      {hunks.length > 0 && (
        <div class="code beside" tabIndex={0} role="region" aria-label={`${path}: ${left} and ${right}`}>
          <table>
            <colgroup><col class="line" /><col /><col class="line" /><col /></colgroup>
            <thead><tr><th colSpan={2}>{left}</th><th colSpan={2}>{right}</th></tr></thead>
            {hunks.map((rows, at) => <tbody key={at}>{rows.map((row, line) => <Row key={line} row={row} />)}</tbody>)}
          </table>
        </div>
      )}
      {note && <Notice>{note}</Notice>}
    </>
  );
}

function Row({ row: { left, right, same } }: { row: DiffRow }) {
  return <tr><Cells side={left} css={same ? "" : "removed"} /><Cells side={right} css={same ? "" : "added"} /></tr>;
}

function Cells({ side, css }: { side: Side | null; css: string }) {
  if (!side) return <><td class="line" /><td class="none" /></>;
  const [from, to] = side.changed;
  const { text } = side;
  return <><td class="line">{side.number}</td><td class={css}>{text.slice(0, from)}{to > from && <mark>{text.slice(from, to)}</mark>}{text.slice(to)}</td></>;
}
