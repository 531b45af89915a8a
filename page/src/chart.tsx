// One chart without a server, for notebooks: the curves of the document that is part of its page.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { splitNumbers, useAddress } from "./address.ts";
import { exported } from "./api.ts";
import { CurvesChart } from "./charts/curves.tsx";
import { CurveTools, useCurveView, zoomTo } from "./charts/curve_tools.tsx";
import { Empty } from "./ui/basics.tsx";
import { applyTheme } from "./ui/theme.ts";

const HEIGHT = 300; // `experimental/charts/frame.py` makes the frame around it large enough

function attemptText(number: number): string {
  return `attempt ${number} begins`;
}

/** The metrics and axes whose curves the document contains. */
function contained(): { metrics: string[]; axes: string[] } {
  const queries = Object.keys(exported?.answers ?? {}).filter((path) => path.startsWith("/api/curves?"))
    .map((path) => new URLSearchParams(path.split("?", 2)[1]));
  const all = (name: string, otherwise: string): string[] => [...new Set(queries.map((query) => query.get(name) ?? otherwise))];
  return { metrics: all("key", ""), axes: all("axis", "batches") };
}

function Chart() {
  const { params } = useAddress();
  const view = useCurveView();
  const { metrics, axes } = contained();
  const metric = params.get("metric") ?? metrics[0];
  if (!metric) return <Empty title="No curves yet"><p>Nothing was reported when this was shown.</p></Empty>;
  return (
    <div class="panel"><div class="panel-body stack">
      <CurveTools view={view} metrics={metrics} metric={metric} axes={axes} />
      <CurvesChart trials={splitNumbers(params.get("trials") ?? "")} metric={metric} view={view} onZoom={zoomTo} name={(id) => exported?.names?.[id] ?? `trial ${id}`} height={HEIGHT} attemptText={attemptText} alone />
    </div></div>
  );
}

document.body.classList.add("frame");
applyTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme());
const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<Chart />, root);
}
