// Terminal output as elements.
import { pieces } from "./ansi.ts";

export function Pieces({ text }: { text: string }) {
  return <>{pieces(text).map(({ text, css, colour }, at) => (css || colour ? <span key={at} class={css || undefined} style={colour ? { color: colour } : undefined}>{text}</span> : text))}</>;
}
