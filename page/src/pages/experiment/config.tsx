// The configuration as it was written, and as it was completed.
import { setParams, useAddress } from "../../address.ts";
import type { ExperimentDetail } from "../../../generated/types.ts";
import { Copy, Panel, Segments } from "../../ui/basics.tsx";

export function ConfigTab({ detail }: { detail: ExperimentDetail }) {
  const { params } = useAddress();
  const written = params.get("config") === "written";
  const text = written ? detail.original : detail.config_text;
  return (
    <Panel flush title="Configuration" tools={<>
      <Segments label="Form" value={written ? "written" : "completed"} options={[["completed", "As completed"], ["written", "As written"]]} onChange={(form) => setParams({ config: form === "written" ? form : null })} />
      <Copy text={text} label="Copy" title="Copy the configuration" />
    </>}>
      {text ? <pre class="code" tabIndex={0} role="region" aria-label="Configuration">{text}</pre> : <p class="panel-body quiet">It was not recorded how this configuration was written.</p>}
    </Panel>
  );
}
