// Choosing the hyperparameters that the charts of an experiment show.
import { useState } from "preact/hooks";
import { joinList, setParams } from "../../address.ts";
import { brushText, FIRST_SHOWN, METRIC_AXIS } from "../../charts/axes.ts";
import { formatCount, plural } from "../../format.ts";
import { Menu } from "../../ui/overlay.tsx";
import type { Shared } from "../experiment.tsx";

const MOST = 200;

export function AxesMenu({ shared: { all, axes, brushes } }: { shared: Shared }) {
  const [search, setSearch] = useState("");
  const shown = axes.map((axis) => axis.name).filter((name) => name !== METRIC_AXIS);
  const found = all.filter((name) => name.toLowerCase().includes(search.toLowerCase()));
  const set = (names: readonly string[]): void => {
    const left = [...brushes].filter(([name]) => name === METRIC_AXIS || names.includes(name));
    setParams({ axes: joinList(names), brush: brushText(new Map(left)) });
  };
  return (
    <>
      <span class="quiet">{shown.length < all.length ? `${formatCount(shown.length)} of ${plural(all.length, "hyperparameter")} shown` : plural(all.length, "hyperparameter")}</span>
      <Menu label="Axes">
        {() => (
          <div class="stack">
            <input type="search" placeholder="Find a hyperparameter" aria-label="Find a hyperparameter" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
            <ul class="columns-list">
              {found.slice(0, MOST).map((name) => (
                <li key={name}><label><input type="checkbox" checked={shown.includes(name)} disabled={shown.length === 1 && shown.includes(name)}
                  onChange={() => set(shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name])} /><span class="clip name">{name}</span></label></li>
              ))}
            </ul>
            {found.length > MOST && <p class="quiet">The first {MOST} of {formatCount(found.length)}: type a part of a name to find others.</p>}
            {found.length === 0 && <p class="quiet">No hyperparameter that differs between trials has “{search}” in its name.</p>}
            <div class="row"><button onClick={() => setParams({ axes: null })}>{all.length > FIRST_SHOWN ? `The first ${FIRST_SHOWN}` : "All"}</button></div>
          </div>
        )}
      </Menu>
    </>
  );
}
