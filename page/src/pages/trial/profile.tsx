// What the profiler recorded: use of processors, memory, disk and network over time.
import { useMemo } from "preact/hooks";
import { CurvesChart } from "../../charts/curves.tsx";
import { useCurveView, zoomTo } from "../../charts/curve_tools.tsx";
import { formatCount, shorten } from "../../format.ts";
import type { TrialDetail } from "../../../generated/types.ts";
import { Empty, Panel } from "../../ui/basics.tsx";
import { InSight } from "../../ui/in_sight.tsx";

export function ProfileTab({ detail }: { detail: TrialDetail }) {
  const chosen = useCurveView();
  const view = useMemo(() => ({ ...chosen, axis: "time" }), [chosen.zoom?.[0], chosen.zoom?.[1], chosen.smoothing, chosen.log, chosen.full]);
  const groups = [...new Set(detail.samples.map((key) => key.split("/", 1)[0]!))];
  if (groups.length === 0) return <Panel><Empty title="No profile"><p>Set <code>profiling.enabled: true</code> in the configuration to record one.</p></Empty></Panel>;
  return (
    <>
      {groups.map((group) => {
        const keys = detail.samples.filter((key) => key.startsWith(`${group}/`));
        return (
          <Panel key={group} title={<><span class="name">{group}</span> <span class="quiet">{formatCount(keys.length)}</span></>}>
            <div class="grid">{keys.map((key) => (
              <div key={key} class="chart"><h3 class="clip name">{shorten(key.slice(group.length + 1), 80)}</h3>
                <InSight height={240}>{() => <CurvesChart path={`/api/trials/${detail.row.id}/profile`} trials={[detail.row.id]} metric={key} view={view} onZoom={zoomTo} name={() => shorten(key, 60)} height={200} compact title={shorten(key, 120)} />}</InSight>
              </div>
            ))}</div>
          </Panel>
        );
      })}
    </>
  );
}
