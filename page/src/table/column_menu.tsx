// Choosing, ordering and pinning columns.
import { useState } from "preact/hooks";
import { Menu } from "../ui/overlay.tsx";
import type { Column } from "./columns.tsx";

const MOST = 200;

export function ColumnMenu<Row>({ all, chosen, pinned, onChange }: {
  all: readonly Column<Row>[]; chosen: readonly string[]; pinned: number; onChange: (names: string[], pinned: number) => void;
}) {
  const [search, setSearch] = useState("");
  const wanted = search.toLowerCase();
  const named = new Map(all.map((column) => [column.name, column]));
  const others = all.filter((column) => !chosen.includes(column.name) && column.title.toLowerCase().includes(wanted));
  const groups = [...new Set(others.map((column) => column.group))];
  const move = (at: number, by: number): void => {
    const next = [...chosen];
    const [item] = next.splice(at, 1);
    next.splice(Math.max(0, at + by), 0, item!);
    onChange(next, pinned);
  };
  return (
    <Menu label="Columns">
      {() => (
        <div class="stack">
          <input type="search" placeholder="Find a hyperparameter or metric" aria-label="Find a column" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          {!search && (
            <div>
              <h3>Shown</h3>
              <ul class="columns-list">
                {chosen.map((name, at) => {
                  const title = named.get(name)?.title ?? name;
                  return (
                    <li key={name}>
                      <label><input type="checkbox" checked onChange={() => onChange(chosen.filter((one) => one !== name), Math.min(pinned, chosen.length - 1))} /><span class="clip name">{title}</span></label>
                      <button class="plain" aria-label={`Move ${title} left`} disabled={at === 0} onClick={() => move(at, -1)}>↑</button>
                      <button class="plain" aria-label={`Move ${title} right`} disabled={at === chosen.length - 1} onClick={() => move(at, 1)}>↓</button>
                      <button class="plain" aria-pressed={at < pinned} title="Keep this column and those before it in sight" aria-label={`Pin up to ${title}`} onClick={() => onChange([...chosen], at + 1 === pinned ? 0 : at + 1)}>⇤</button>
                    </li>
                  );
                })}
              </ul>
            </div>
          )}
          {groups.map((group) => (
            <div key={group}>
              <h3>{group}</h3>
              <ul class="columns-list">
                {others.filter((column) => column.group === group).slice(0, MOST).map((column) => (
                  <li key={column.name}>
                    <label><input type="checkbox" checked={false} onChange={() => onChange([...chosen, column.name], pinned)} /><span class="clip name">{column.title}</span></label>
                  </li>
                ))}
              </ul>
            </div>
          ))}
          {others.length === 0 && <p class="quiet">No other column has “{search}” in its name.</p>}
        </div>
      )}
    </Menu>
  );
}
